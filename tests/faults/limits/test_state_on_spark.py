"""A program whose state is a gigabyte: every batch reads it, some update all of it; the heap is four times as large."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.programs, pytest.mark.timeout(900)]

_PROGRAM = """
import json, random, sys
from pyspark import SparkConf, SparkContext
from penstock import StreamingContext

KEYS, BYTES, BATCHES, FOLDER = 1 << 14, 1 << 16, 3, sys.argv[1]

def created(values, state):
    if state is None:
        return len(values), random.Random(len(values)).randbytes(BYTES)
    return state[0] + len(values), state[1]

def totals(states):
    keys = counts = size = 0
    for _key, (count, data) in states:
        keys, counts, size = keys + 1, counts + count, size + len(data)
    yield keys, counts, size

conf = SparkConf().setMaster("local[2]").setAppName("gigabyte").set("spark.driver.memory", "4g")
conf.set("spark.ui.enabled", "false").set("spark.local.dir", FOLDER)
sc = SparkContext(conf=conf)
ssc = StreamingContext(sc, 10)
ssc.checkpoint(FOLDER + "/checkpoint")
batches = [sc.range(KEYS, numSlices=2).map(lambda key: (key, 1)) for _ in range(BATCHES)]
states = ssc.queueStream(batches, oneAtATime=True).updateStateByKey(created)
seen = []

def check(time, rdd):
    parts = rdd.mapPartitions(totals).collect()
    seen.append([sum(part[index] for part in parts) for index in range(3)])

states.foreachRDD(check)
ssc.start()
while len(seen) < BATCHES + 1 and not ssc.awaitTerminationOrTimeout(1):
    pass
ssc.stop()
expected = [[KEYS, KEYS * min(number, BATCHES), KEYS * BYTES] for number in range(1, BATCHES + 2)]
print(json.dumps({"right": seen[: BATCHES + 1] == expected, "seen": seen}))
"""


def test_gigabyte_of_state_is_carried_from_batch_to_batch(tmp_path: Path) -> None:
    program = tmp_path / "gigabyte.py"
    program.write_text(_PROGRAM, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, timeout=880, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-5000:]
    result = json.loads(ran.stdout.splitlines()[-1])
    assert result["right"], result
