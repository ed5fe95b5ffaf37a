"""``CheckpointDirectory``: holds a run's checkpoints, checkpointed RDDs, and with the write-ahead log on the blocks."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryFile

from pyspark import SparkContext

from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.checkpoint.program import Program
from penstock.conf import Settings
from penstock.errors import ConfigurationError, shown
from penstock.runtime.private_files import make_private
from penstock.spark import failure
from penstock.spark.rdd_files import (
    RunFolder,
    checkpoint_folder,
    delete_empty_folders,
    delete_file,
    qualified,
    unusable,
)
from penstock.spark.spark_conf import conf_of
from penstock.storage.claim import Claim, ClaimedDirectory, Owner
from penstock.storage.directory import Directory, Durability
from penstock.storage.uri import is_remote, location_of_hadoop

# With this key Spark's ContextCleaner deletes the files of checkpointed RDDs.
_CLEANER = "spark.cleaner.referenceTracking.cleanCheckpoints"


class CheckpointDirectory:
    """The checkpoint directory of a run: ``name`` as in the program, and the run's ``folder`` in it."""

    def __init__(self, sc: SparkContext, settings: Settings, name: str, folder: RunFolder) -> None:
        self._sc = sc
        self.name = name
        self.folder = folder
        # Spark has resolved the URI: a path without a file system is on Hadoop's default one.
        self.files: Directory = Directory.of(location_of_hadoop(folder.uri))
        self._durability = Durability(settings.durability)
        self.store = CheckpointStore(self.files, self._durability)
        #: The claim of this driver, once it is taken.
        self.claim: Claim | None = None

    @classmethod
    def create(cls, sc: SparkContext, settings: Settings, name: str, setting: str) -> CheckpointDirectory:
        """Create the directory if it is missing, and set it for RDD checkpoints; errors name the ``setting``."""
        require_checkpoint_directory(name, setting)
        if str(conf_of(sc).get(_CLEANER)).lower() == "true":
            raise ConfigurationError(
                f"with {_CLEANER}=true Spark deletes the state in the checkpoint directory {name!r} that no RDD of "
                "this driver refers to, although a recovery or another driver may need it: unset the key"
            )
        location = location_of_hadoop(qualified(sc, name, setting))
        try:
            if not is_remote(location):
                _make_writable(Path(location))
            sc.setCheckpointDir(name)
            folder = checkpoint_folder(sc)
        except Exception as error:
            reason = str(error) if isinstance(error, OSError) else failure.reason(error)
            raise unusable(name, setting, reason) from error
        assert folder is not None
        return cls(sc, settings, name, folder)

    def take_claim(self) -> None:
        """Take the directory over from another driver; from now on changes are refused when the claim is lost."""
        application, application_id = str(self._sc.appName), str(self._sc.applicationId)
        owner = Owner(socket.gethostname(), os.getpid(), application, application_id, round(time.time() * 1000))
        with self.errors():
            self.claim = Claim.take(self.files, owner, self.store.last_claim())
        self.files = ClaimedDirectory(self.files, self.claim)
        self.store = CheckpointStore(self.files, self._durability)

    @property
    def state_home(self) -> str:
        """Location of this run's state store, which later runs use long after this run's RDDs."""
        return f"{location_of_hadoop(self.folder.uri)}/{self.folder.name}-state"

    def delete_rdd(self, uri: str) -> None:
        """Delete a checkpointed RDD; a failure is logged. Raises ``ClaimLostError``."""
        with self._held():
            delete_file(self._sc, uri)

    def delete_folder(self, name: str) -> None:
        """Delete a folder of the directory; a failure is logged. Raises ``ClaimLostError``."""
        self.delete_rdd(f"{self.folder.uri}/{name}")

    def delete_empty_folders(self) -> None:
        """Delete the empty folders of runs that wrote nothing; a failure is logged. Raises ``ClaimLostError``."""
        with self._held():
            delete_empty_folders(self._sc, self.folder)

    def _held(self) -> AbstractContextManager[None]:
        return nullcontext() if self.claim is None else self.claim.held(deletes=True)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Report an OSError in the ``with`` block as a directory that cannot be used."""
        try:
            yield
        except OSError as error:
            raise unusable(self.name, "", str(error)) from error


def require_checkpoint_directory(directory: object, setting: str) -> None:
    """Refuse a value that is not a string or has no text."""
    if not isinstance(directory, str) or not directory.strip():
        raise ConfigurationError(f"{setting} must be the path or URI of a checkpoint directory, not {shown(directory)}")


def _make_writable(path: Path) -> None:
    """Create a local directory, or find out why it cannot be written: Hadoop says only that it does not exist."""
    for folder in (path, *path.parents):
        if folder.is_file():
            raise NotADirectoryError(f"{folder} is a file")
    make_private(path)  # Spark would create it readable by everybody
    with TemporaryFile(dir=path):
        pass


def use_directory_of_spark(program: Program) -> None:
    """Checkpoint RDDs to the directory of ``sc.setCheckpointDir``; as in Spark the program is not recoverable."""
    if program.graph.checkpoint_directory is None and (folder := checkpoint_folder(program.sc)) is not None:
        # Another context may have used the same folder before.
        program.graph.state_home = f"{location_of_hadoop(folder.uri)}/{folder.name}/state-{secrets.token_hex(4)}"
        program.graph.checkpoint_directory = folder.uri
