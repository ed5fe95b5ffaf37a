"""``SaveFiles``: each batch into a directory of its own, named by its time. Runs on the job pool."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from attrs import frozen
from pyspark import RDD

from penstock.runtime.log import get_logger

log = get_logger("save_files")


@frozen
class SaveFiles:
    """An output function.

    Attributes:
        save: writes an RDD into a directory.
        prefix: of the directories.
        suffix: of the directories, after a dot; ``None`` for none.
    """

    save: Callable[[RDD[Any], str], None]
    prefix: str
    suffix: str | None

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        """Write; a directory that exists was written when the batch ran before."""
        path = f"{self.prefix}-{round(time.timestamp() * 1000)}" + (f".{self.suffix}" if self.suffix else "")
        try:
            self.save(rdd, path)
        except Exception as error:
            if "FileAlreadyExistsException" not in str(error):
                raise
            log.warning("not saved again: the directory exists", path=path)
