"""A program with a receiver and a dashboard, as ``program_with_ports.py FOLDER PORT``.

It listens on the port for messages of receivers, and prints the address of the dashboard. It stops as the file ``stop``
says.

Its records are the process of the receiver that stored them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from pyspark import RDD, SparkConf, SparkContext

from penstock import StreamingContext, ThreadReceiver
from penstock_cli.java import ensure_java

TOKEN = "of the test"


class OwnProcess(ThreadReceiver[int]):
    """Stores the id of its process, and writes it to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def receive(self) -> None:
        note = self.folder / "receiver.new"
        note.write_text(str(os.getpid()))
        note.replace(self.folder / "receiver")
        while not self.wait(0.02):
            self.store_all([os.getpid()] * 20)


def main(folder: Path, port: str) -> None:
    ensure_java()
    conf = SparkConf().setMaster("local[3]").setAppName("ports").set("spark.ui.enabled", "false")
    conf.set("spark.penstock.ui.enabled", "true").set("spark.penstock.ui.port", "0")
    conf.set("spark.penstock.ui.token", TOKEN).set("spark.penstock.driver.port", port)
    conf.set("spark.penstock.log.level", "INFO")
    ssc = StreamingContext(SparkContext(conf=conf), 0.5)

    def write(rdd: RDD[int]) -> None:
        counts = Counter(rdd.collect())
        with (folder / "batches").open("ab", buffering=0) as batches:
            batches.write(json.dumps(sorted(counts.items())).encode() + b"\n")

    ssc.receiverStream(OwnProcess(folder)).foreachRDD(write)
    ssc.start()
    print(ssc.uiWebUrl, flush=True)
    while not (folder / "stop").exists():
        ssc.awaitTerminationOrTimeout(0.1)
    began = time.monotonic()
    ssc.stop(stopGracefully=(folder / "stop").read_text() == "gracefully")
    print(time.monotonic() - began, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
