"""``CheckpointDirectory``: the checkpoint directory of one run.

It holds the checkpoints, and a folder per run with the RDDs that Spark checkpoints. With the write-ahead log on it also
holds the receivers' blocks and the driver's log of them.
"""

from __future__ import annotations

import secrets

from pyspark import SparkContext

from penstock.checkpoint.program import Program
from penstock.checkpoint.store import CheckpointStore
from penstock.conf import Settings
from penstock.errors import ConfigurationError
from penstock.spark.checkpoint import RunFolder, checkpoint_folder, delete_empty_folders, delete_file
from penstock.storage.directory import Directory, Durability
from penstock.storage.uri import location_of_hadoop

#: Folder of the receivers' blocks.
RECEIVED_DATA = "receivedData"
#: Folder of the driver write-ahead log: received blocks, and the batch that each is allocated to.
BLOCK_LOG = "receivedBlockMetadata"
#: Folder of the log of completed output operations.
COMPLETED_OUTPUTS = "completedOutputs"


class CheckpointDirectory:
    """The checkpoint directory of a run.

    Args:
        sc: the SparkContext that uses it for RDD checkpoints.
        settings: the configuration in force.
        name: the directory as the program named it.
        folder: the run's own folder in it.
    """

    def __init__(self, sc: SparkContext, settings: Settings, name: str, folder: RunFolder) -> None:
        self._sc = sc
        self.name, self.folder = name, folder
        # As Spark resolved it: a path without a file system is on Hadoop's default one.
        self.files = Directory.of(location_of_hadoop(folder.uri))
        self.store = CheckpointStore(self.files, Durability(settings.durability))

    def delete_rdd(self, uri: str) -> None:
        """Delete a checkpointed RDD; a failure is logged."""
        delete_file(self._sc, uri)

    def delete_folder(self, name: str) -> None:
        """Delete a folder of the directory; a failure is logged."""
        delete_file(self._sc, f"{self.folder.uri}/{name}")

    def delete_empty_folders(self) -> None:
        """Delete the folders of runs that ended before they wrote anything; a failure is logged."""
        delete_empty_folders(self._sc, self.folder)

    def unusable(self, error: OSError) -> ConfigurationError:
        """The error to raise if the directory cannot be read or written."""
        return ConfigurationError(
            f"the checkpoint directory {self.name!r} cannot be used: {error}; name one that this program may "
            "read and write"
        )


def use_directory_of_spark(program: Program) -> None:
    """Checkpoint RDDs to the directory of ``sc.setCheckpointDir``, if the program has no checkpoint directory.

    As in Spark, that suffices for state and windows, but the program is not recoverable.
    """
    folder = checkpoint_folder(program.sc) if program.graph.checkpoint_directory is None else None
    if folder is not None:
        # Another context may have used the same folder before.
        state_home = f"{location_of_hadoop(folder.uri)}/{folder.name}/state-{secrets.token_hex(4)}"
        program.graph.set_checkpoint_directory(folder.uri, state_home)
