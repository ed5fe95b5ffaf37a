"""A gigabyte of state, of a checkpoint, and of one key; without Spark. Time and memory are printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(900)

_MEASURED = """
import json, os, random, resource, sys, time
from pathlib import Path

def report(**values):
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({**values, "peak MB": peak_mb}), flush=True)

folder = Path(sys.argv[1])
"""
_STATE = """
from penstock.spi import pickle_value
from penstock_state.state_store import StateStore, StateVersion, StoredState

KEYS, BYTES = 1 << 14, 1 << 16

def changes(keys, count, time_ms):
    for key in keys:
        state = pickle_value((count, random.Random(key).randbytes(BYTES)))
        yield key, StoredState(pickle_value(key), state, time_ms)

begun = time.monotonic()
store, version = StateStore.of(str(folder), 0), StateVersion(-1)
version = store.commit(version, 1, changes(range(KEYS), 1, 1))
first_s = time.monotonic() - begun
for batch in range(2, 12):
    keys = range(batch, KEYS, KEYS // 64)
    assert store.find(version, keys).keys() == set(keys)
    version = store.retire(store.commit(version, batch, changes(keys, batch, batch)), batch - 1)
# A merge of everything.
version = store.commit(version, 12, changes(range(0, KEYS, 2), 12, 12))
counts, sizes = {}, set()
for key, (count, data) in store.snapshot(version):
    counts[key] = count
    sizes.add(len(data))
expected = {key: 1 for key in range(KEYS)}
for batch in range(2, 12):
    expected |= {key: batch for key in range(batch, KEYS, KEYS // 64)}
expected |= {key: 12 for key in range(0, KEYS, 2)}
report(right=counts == expected and sizes == {BYTES}, first_s=first_s, all_s=time.monotonic() - begun)
"""
_CHECKPOINT = """
from attrs import evolve
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.storage.directory import LocalDirectory
from tests.checkpoint.samples import FIRST

# A million files of a kilobyte's name each.
position = {f"{number:07d}" + "x" * 1_000: number for number in range(1_000_000)}
checkpoint = evolve(FIRST, listeners={"files": position})
begun = time.monotonic()
CheckpointStore(LocalDirectory(folder)).write(checkpoint)
written_s = time.monotonic() - begun
num_bytes = sum(path.stat().st_size for path in folder.iterdir())
del position
is_equal = CheckpointStore(LocalDirectory(folder)).newest() == checkpoint
report(right=is_equal and num_bytes > 1_000_000_000, written_s=written_s, all_s=time.monotonic() - begun)
"""
_ONE_STATE = """
from penstock.spi import pickle_value
from penstock_state.state_store import StateStore, StateTooLargeError, StateVersion, StoredState

begun = time.monotonic()
store, data = StateStore.of(str(folder), 0), b"x" * 1_000_000_001
try:
    store.commit(StateVersion(-1), 1, [("big", StoredState(pickle_value("big"), data, 1))])
except StateTooLargeError as error:
    right = str(error).startswith("the state of key 'big' has 1,000,000,001 bytes")
    report(right=right, all_s=time.monotonic() - begun)
"""


@pytest.mark.parametrize("program", [_STATE, _CHECKPOINT, _ONE_STATE], ids=["state", "checkpoint", "one key"])
def test_gigabyte_fits_or_is_refused_by_name(program: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURED + program, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={"PYTHONHASHSEED": "0"},
        timeout=880,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    measured = json.loads(ran.stdout)
    print(measured)
    assert measured["right"]
    assert measured["peak MB"] < 8_000
