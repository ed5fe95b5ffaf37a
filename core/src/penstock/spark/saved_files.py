"""The directories into which Spark's jobs save RDDs, by the rules of Hadoop's output committers."""

from __future__ import annotations

from pyspark import SparkContext

from penstock.spark.rdd_checkpoints import hadoop_path

# Marks a directory whose job has committed all its files.
_SUCCESS = "_SUCCESS"
# Files that committers write before the mark: parts and their checksums, and the folders of unfinished tasks.
_WRITTEN_BY_JOBS = ("part-", ".part-", "._SUCCESS", "_temporary", "__magic")


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
