"""Drain text lines from a socket as fast as the program can, and print the lines/s.

usage: drain.py [count|grep|wordcount] [LINES] [spark.KEY=VALUE ...]     by default: count, 3,000,000 lines

This process sends the lines (about 100 bytes each, the same in every run); a second process is the program, started
with `penstock run` on two cores. The time runs from the receiver's connection to the end of the job that holds the last
line, so that the start of Spark is not in it. The program uses the public API only: to compare two versions, run this
file with the Python of each, one right after the other.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from operator import add
from typing import Any

WORKS = ("count", "grep", "wordcount")
MASTER = "local[2]"
TIMEOUT_S = 300.0
LINES_A_SEND = 10_000


def make_lines(seed: int = 7) -> list[bytes]:
    """Lines of words from a vocabulary of 2,000."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(2000)]
    lines = []
    for _ in range(LINES_A_SEND):
        line = ""
        while len(line) < 92:
            line += rng.choice(vocabulary) + " "
        lines.append(line.strip().encode() + b"\n")
    return lines


class Sender:
    """Sends the lines to the first client and keeps the connection open.

    Attributes:
        port: where it listens on 127.0.0.1.
        connected_at: when the client connected, in seconds of the epoch; 0 before.
    """

    def __init__(self, num_lines: int) -> None:
        self.connected_at = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(num_lines,), daemon=True).start()

    def _serve(self, num_lines: int) -> None:
        lines = make_lines()
        block = b"".join(lines)
        whole, rest = divmod(num_lines, len(lines))
        connection, _ = self._listener.accept()
        self.connected_at = time.time()
        with suppress(OSError):
            for _ in range(whole):
                connection.sendall(block)
            connection.sendall(b"".join(lines[:rest]))
            connection.recv(1)  # the program's end


def run_program(work: str, port: int, num_lines: int) -> None:
    """The measured program: print one JSON object with the end of the last job and the size of each batch."""
    from pyspark import SparkContext

    from penstock import StreamingContext

    sc = SparkContext(appName="drain")
    sc.setLogLevel("ERROR")
    sc.parallelize(range(2), 2).map(lambda x: x).count()  # start the Python workers
    ssc = StreamingContext(sc, 1)
    lines = ssc.socketTextStream("127.0.0.1", port)
    batches: list[int] = []
    done = threading.Event()

    def tally(rdd: Any) -> None:
        if work == "grep":
            matches = rdd.map(lambda line: (1, "qu" in line))
            num_records, _matching = matches.fold((0, 0), lambda a, b: (a[0] + b[0], a[1] + b[1]))
        else:
            num_records = rdd.count()
        if num_records:
            batches.append(num_records)
        if sum(batches) >= num_lines:
            done.set()

    if work == "wordcount":
        counts = lines.flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1)).reduceByKey(add)
        counts.foreachRDD(lambda rdd: rdd.top(10, key=lambda pair: pair[1]))
    lines.foreachRDD(tally)
    ssc.start()
    done.wait(TIMEOUT_S)
    print(json.dumps({"ended_at": time.time(), "batches": batches}), flush=True)
    ssc.stop(stopGracefully=True)


def main(arguments: list[str]) -> int:
    """Run the sender and the program; print the result."""
    settings = [argument for argument in arguments if "=" in argument]
    plain = [argument for argument in arguments if "=" not in argument]
    work = plain[0] if plain else WORKS[0]
    num_lines = int(plain[1].replace("_", "").replace(",", "")) if len(plain) > 1 else 3_000_000
    if work not in WORKS or len(plain) > 2 or num_lines < 1:
        print(__doc__, file=sys.stderr)
        return 2
    sender = Sender(num_lines)
    command = [sys.executable, "-m", "penstock", "run", "--master", MASTER]
    command += [part for setting in settings for part in ("--conf", setting)]
    command += [__file__, "--program", work, str(sender.port), str(num_lines)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        print(f"FAILED: the program exited with {ran.returncode}", file=sys.stderr)
        return 1
    result = json.loads(ran.stdout.splitlines()[-1])
    received, took_s = sum(result["batches"]), result["ended_at"] - sender.connected_at
    print(
        f"{work}: {received:,} lines in {took_s:.2f} s = {received / took_s:,.0f} lines/s; "
        f"lines of each batch: {result['batches']}"
    )
    if received != num_lines:
        print(f"FAILED: {num_lines:,} lines were sent", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        run_program(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(main(sys.argv[1:]))
