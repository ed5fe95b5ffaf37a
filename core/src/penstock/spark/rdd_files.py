"""Files of RDDs: checkpoints and their directory, and the directories into which jobs save RDDs."""

from __future__ import annotations

import re
from typing import Any

from attrs import frozen
from pyspark import RDD, SparkContext

from penstock.errors import ConfigurationError
from penstock.runtime.log import get_logger
from penstock.spark import failure

log = get_logger("checkpoint")

#: With this property a job checkpoints every marked RDD of its lineage, not only the last one.
ALL_MARKED_ANCESTORS = "spark.checkpoint.checkpointAllMarkedAncestors"

# Spark names the folders of runs with UUIDs.
_RUN = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Marks a directory whose job has committed all its files.
_SUCCESS = "_SUCCESS"
# Files that Hadoop's committers write before the mark: parts, their checksums, and the folders of unfinished tasks.
_WRITTEN_BY_JOBS = ("part-", ".part-", "._SUCCESS", "_temporary", "__magic")


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
            is_earlier_run = _RUN.fullmatch(path.getName()) and path.getName() != folder.name
            if is_earlier_run and status.isDirectory() and not list(files.listStatus(path)):
                # Not recursively, because another run may have created a file meanwhile.
                files.delete(path, False)
    except Exception as error:
        log.warning("empty folders of earlier runs not deleted", directory=folder.uri, reason=failure.reason(error))


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


def is_saved(sc: SparkContext, path: str) -> bool:
    """Whether a job has saved a whole RDD in a directory."""
    mark, files = hadoop_path(sc, f"{path}/{_SUCCESS}")
    return bool(files.exists(mark))


def discard_interrupted_save(sc: SparkContext, path: str) -> bool:
    """Delete a directory that an interrupted job left; return whether it was deleted.

    A directory with files that no job writes, and a file in place of the directory, stay.
    """
    directory, files = hadoop_path(sc, path)
    if not files.getFileStatus(directory).isDirectory():
        return False
    names = [status.getPath().getName() for status in files.listStatus(directory)]
    return all(name.startswith(_WRITTEN_BY_JOBS) for name in names) and bool(files.delete(directory, True))


def hadoop_path(sc: SparkContext, location: str) -> tuple[Any, Any]:
    """Hadoop's Path of a location, and its file system."""
    jvm: Any = sc._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path, path.getFileSystem(sc._jsc.hadoopConfiguration())
