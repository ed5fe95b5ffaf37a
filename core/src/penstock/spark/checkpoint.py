"""Where RDDs are checkpointed, and the files that are left of RDDs that nobody needs any more.

Owns the calls for what PySpark does not offer. Called on the program's thread and on the generator's loop.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import frozen
from pyspark import RDD, SparkContext

from penstock.errors import ConfigurationError
from penstock.runtime.log import get_logger
from penstock.spark import failure

log = get_logger("checkpoint")

#: Has a job checkpoint every marked RDD on its way, not the last one alone.
ALL_MARKED_ANCESTORS = "spark.checkpoint.checkpointAllMarkedAncestors"


@frozen
class RunFolder:
    """Where in a checkpoint directory a run's RDDs go.

    Attributes:
        name: of the folder; no other run has it.
        uri: of the checkpoint directory, as Spark names it.
    """

    name: str
    uri: str


def set_checkpoint_directory(sc: SparkContext, directory: str) -> RunFolder:
    """Have RDDs checkpointed in a directory, which is made if it does not exist.

    Returns:
        Where in it this run's RDDs go.

    Raises:
        ConfigurationError: it cannot be made or written to.
    """
    try:
        sc.setCheckpointDir(directory)
        folder = checkpoint_folder(sc)
    except Exception as error:
        raise ConfigurationError(
            f"the checkpoint directory {directory!r} cannot be used: {failure.reason(error)}; "
            "name one that this program may write to"
        ) from error
    assert folder is not None
    return folder


def checkpoint_folder(sc: SparkContext) -> RunFolder | None:
    """The folder to which a SparkContext checkpoints RDDs; ``None`` if it has none, or Spark is stopped."""
    directory = None if sc._jsc is None else sc._jsc.sc().getCheckpointDir()
    if directory is None or directory.isEmpty():
        return None
    uri: str = directory.get()
    base, _slash, name = uri.rstrip("/").rpartition("/")
    return RunFolder(name, base)


def qualified(sc: SparkContext, directory: str) -> str:
    """The URI of a directory as Spark understands it, with Hadoop's default file system where none is named.

    Raises:
        ConfigurationError: no file system of Spark's answers to it.
    """
    try:
        jvm: Any = sc._jvm
        path = jvm.org.apache.hadoop.fs.Path(directory)
        return str(path.getFileSystem(sc._jsc.hadoopConfiguration()).makeQualified(path).toString())
    except Exception as error:
        raise ConfigurationError(
            f"the checkpoint directory {directory!r} cannot be used: {failure.reason(error)}"
        ) from error


def delete_empty_folders(sc: SparkContext, folder: RunFolder) -> None:
    """Delete what is left in a checkpoint directory of runs that began and wrote nothing; told of where that fails."""
    try:
        jvm: Any = sc._jvm
        home = jvm.org.apache.hadoop.fs.Path(folder.uri)
        files = home.getFileSystem(sc._jsc.hadoopConfiguration())
        for status in files.listStatus(home):
            path = status.getPath()
            if status.isDirectory() and _is_of_a_run(path.getName(), folder) and not list(files.listStatus(path)):
                # Not what has come to be in it meanwhile.
                files.delete(path, False)
    except Exception as error:
        log.warning("empty folders of earlier runs not deleted", directory=folder.uri, reason=failure.reason(error))


def _is_of_a_run(name: str, folder: RunFolder) -> bool:
    try:
        # As Spark calls them.
        return str(UUID(name)) == name != folder.name
    except ValueError:
        return False


def checkpoint_file(rdd: RDD[Any]) -> str | None:
    """Where an RDD was checkpointed; ``None`` when it was not (yet)."""
    return rdd.getCheckpointFile() if rdd.isCheckpointed() else None


def delete_file(sc: SparkContext, path: str) -> None:
    """Delete the file of a checkpointed RDD; what cannot be deleted is told of and left."""
    try:
        jvm: Any = sc._jvm
        target = jvm.org.apache.hadoop.fs.Path(path)
        target.getFileSystem(sc._jsc.hadoopConfiguration()).delete(target, True)
    except Exception as error:
        log.warning("an old checkpoint was not deleted", path=path, reason=failure.reason(error))
