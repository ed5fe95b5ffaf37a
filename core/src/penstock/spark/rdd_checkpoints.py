"""RDD checkpoints: their directory and their files."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import frozen
from pyspark import RDD, SparkContext

from penstock.errors import ConfigurationError
from penstock.runtime.log import get_logger
from penstock.spark import failure

log = get_logger("checkpoint")

#: With this property a job checkpoints every marked RDD of its lineage, not only the last one.
ALL_MARKED_ANCESTORS = "spark.checkpoint.checkpointAllMarkedAncestors"


@frozen
class RunFolder:
    """The folder ``name`` into which Spark checkpoints the RDDs of one run, in the checkpoint directory ``uri``."""

    name: str
    uri: str


def checkpoint_folder(sc: SparkContext) -> RunFolder | None:
    """The folder for RDD checkpoints of a SparkContext; ``None`` if none is set or Spark has stopped."""
    directory = None if sc._jsc is None else sc._jsc.sc().getCheckpointDir()
    if directory is None or directory.isEmpty():
        return None
    uri: str = directory.get()
    base, _slash, name = uri.rstrip("/").rpartition("/")
    return RunFolder(name, base)


def qualified(sc: SparkContext, directory: str, setting: str = "") -> str:
    """The URI of a checkpoint directory with Hadoop's default file system; ``setting`` is for the error message."""
    try:
        path, files = hadoop_path(sc, directory)
        return str(files.makeQualified(path).toString())
    except Exception as error:
        raise unusable(directory, setting, failure.reason(error)) from error


def unusable(directory: str, setting: str, reason: str) -> ConfigurationError:
    """The error for a checkpoint directory that cannot be used; ``setting`` is the argument or key that named it."""
    return ConfigurationError(
        f"the checkpoint directory {directory!r}{setting and f' ({setting})'} cannot be used: {reason}; name a "
        "directory that this program may read and write"
    )


def delete_empty_folders(sc: SparkContext, folder: RunFolder) -> None:
    """Delete the empty folders of earlier runs in a checkpoint directory; failures are logged."""
    try:
        home, files = hadoop_path(sc, folder.uri)
        for status in files.listStatus(home):
            path = status.getPath()
            if status.isDirectory() and _is_earlier_run(path.getName(), folder) and not list(files.listStatus(path)):
                # Not recursively, because another run may have created a file meanwhile.
                files.delete(path, False)
    except Exception as error:
        log.warning("empty folders of earlier runs not deleted", directory=folder.uri, reason=failure.reason(error))


def _is_earlier_run(name: str, folder: RunFolder) -> bool:
    try:
        # Spark names the folders with UUIDs.
        return str(UUID(name)) == name != folder.name
    except ValueError:
        return False


def checkpoint_file(rdd: RDD[Any]) -> str | None:
    """The file of a checkpointed RDD; ``None`` if the RDD is not checkpointed yet."""
    return rdd.getCheckpointFile() if rdd.isCheckpointed() else None


def delete_file(sc: SparkContext, path: str) -> None:
    """Delete the file of a checkpointed RDD; a failure is logged."""
    try:
        file, files = hadoop_path(sc, path)
        files.delete(file, True)
    except Exception as error:
        log.warning("RDD checkpoint not deleted", path=path, reason=failure.reason(error))


def hadoop_path(sc: SparkContext, location: str) -> tuple[Any, Any]:
    """Hadoop's Path of a location, and its file system."""
    jvm: Any = sc._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path, path.getFileSystem(sc._jsc.hadoopConfiguration())
