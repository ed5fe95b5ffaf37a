"""The program of the fault lab: numbers from a broker into SQLite, batch by batch, each batch once.

``python -m benchmarks.faults.program FOLDER``: FOLDER has ``spec.json``; it continues from its checkpoint there.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from penstock import StreamingContext
from penstock_cli.java import ensure_java

#: Maximum time of the last stop, which first processes what is stored.
STOP_S = 300


@frozen
class Spec:
    """What the program runs.

    Attributes:
        receiver: name of the receiver.
        options: its options.
        master: Spark's master.
        interval_s: the batch interval.
        disk: folder of the checkpoint, the logs and the blocks.
    """

    receiver: str
    options: Mapping[str, str]
    master: str
    interval_s: float
    disk: str


@frozen
class Sink:
    """Writes each batch in one transaction, which replaces what an earlier attempt has written.

    Args:
        folder: holds the database, and ``slow``, the seconds by which the next batch is delayed.
    """

    folder: str

    def __call__(self, batch: datetime, rdd: Any) -> None:
        numbers = [int(text) for text in rdd.collect()]
        slow = Path(self.folder, "slow")
        if slow.exists():
            delay_s = float(slow.read_text())
            slow.unlink()
            time.sleep(delay_s)
        batch_ms = round(batch.timestamp() * 1000)
        with closing(connect(Path(self.folder))) as database, database:
            database.execute("DELETE FROM numbers WHERE batch_ms = ?", [batch_ms])
            database.executemany("INSERT INTO numbers VALUES (?, ?)", [(batch_ms, number) for number in numbers])


def connect(folder: Path) -> sqlite3.Connection:
    """Open the database of written numbers."""
    database = sqlite3.connect(folder / "written.db", timeout=60)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE IF NOT EXISTS numbers (batch_ms INTEGER, number INTEGER)")
    database.execute("CREATE INDEX IF NOT EXISTS by_batch ON numbers (batch_ms)")
    database.execute("CREATE INDEX IF NOT EXISTS by_number ON numbers (number)")
    return database


def main(folder: Path) -> None:
    """Run until SIGTERM."""
    from pyspark import SparkConf, SparkContext

    ensure_java()
    spec = Spec(**json.loads((folder / "spec.json").read_text()))
    conf = SparkConf().setMaster(spec.master).setAppName("fault lab").set("spark.ui.enabled", "false")
    for key, value in {
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.streaming.receiver.writeAheadLog.enable": "true",
        "spark.streaming.stopGracefullyOnShutdown": "true",
        "spark.streaming.gracefulStopTimeout": f"{STOP_S}s",
        "spark.streaming.receiverRestartDelay": "200ms",
        "spark.penstock.onFailedBatch": "retry",
        "spark.penstock.log.level": "INFO",
        "spark.local.dir": f"{spec.disk}/local",
    }.items():
        conf.set(key, value)

    def create() -> StreamingContext:
        ssc = StreamingContext(SparkContext(conf=conf), spec.interval_s)
        ssc.receiverStream(spec.receiver, **spec.options).foreachRDD(Sink(str(folder)))
        return ssc

    ssc = StreamingContext.getOrCreate(f"{spec.disk}/checkpoint", create)
    ssc.sparkContext.setLogLevel("OFF")
    ssc.start()
    ssc.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
