"""What must hold when a simulated program has ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from penstock_testing.simulation.simulated_disk import SimulatedDisk
from penstock_testing.simulation.simulated_program import INTERVAL_S, TIMEOUT_S, WINDOW_S, Record, World

# The files that data is in.
_KINDS = re.compile(r"/receivedData/|/rdd-\d+/")

# How many objects of a class a driver may hold more than 40 batches earlier.
_MOST_GROWTH = 30


def check(world: World, *, skips_times: bool, maps_with_state: bool = False) -> None:
    """Compare what the program has written with what its sources were told, and with a plain model.

    Args:
        world: what the program has received and written.
        skips_times: whether batch times may be left out, because the wall clock was set forward.
        maps_with_state: whether the program has ``mapWithState``.
    """
    interval_ms, window_ms = round(INTERVAL_S * 1000), round(WINDOW_S * 1000)
    batches = {
        time_ms: values for (operation, time_ms), values in sorted(world.outputs.items()) if operation == "records"
    }
    times = sorted(batches)
    if not skips_times and times and times != list(range(times[0], times[-1] + 1, interval_ms)):
        missing = sorted({*range(times[0], times[-1] + 1, interval_ms)} - set(times))
        world.violate(f"batch times without an output: {missing}; others: {len(times)}")
    seen = Counter(number for values in batches.values() for _key, number in values)
    for source in world.sources:
        lost = sorted(source.acknowledged - set(seen))
        if lost:
            world.violate(f"acknowledged by stream {source.stream} and in no batch: {lost}")
    repeated = sorted(number for number, times_seen in seen.items() if times_seen > 1)
    if repeated:
        world.violate(f"in two batches, or twice in one: {repeated}")
    total: Counter[int] = Counter()
    for time_ms in times:
        total.update(key for key, _number in batches[time_ms])
        _compare(world, "state", time_ms, total)
        window = Counter(
            key for time in times if time_ms - window_ms < time <= time_ms for key, _number in batches[time]
        )
        _compare(world, "window", time_ms, window)
    if maps_with_state:
        _check_mapped(world, batches)


def check_files(world: World, disk: SimulatedDisk, before_s: float) -> None:
    """Find the blocks and the partitions of RDD checkpoints that are older than a time, which no batch needs."""
    old = [path for path in sorted(disk.files) if disk.changed_s[path] < before_s and _KINDS.search(path)]
    if old:
        world.violate(f"{len(old)} files that are no longer needed were not deleted: {', '.join(old[:4])}")


def check_growth(world: World, before: Counter[str], after: Counter[str]) -> None:
    """Compare the objects that a driver without input holds at two times; see ``held_objects``."""
    grown = {name: (before[name], count) for name, count in after.items() if count > before[name] + _MOST_GROWTH}
    if grown:
        world.violate(f"a driver without input holds more and more objects: {grown}")
    if after["StoredBlock"]:
        world.violate(f"{after['StoredBlock']} blocks that are no longer needed are still known")


def _check_mapped(world: World, batches: Mapping[int, Sequence[Record]]) -> None:
    """Compare the mapped records and the states of ``mapWithState`` with a dictionary whose entries grow old."""
    states: dict[int, int] = {}
    updated_ms: dict[int, int] = {}
    for time_ms, records in batches.items():
        mapped = []
        for key, _number in records:
            states[key] = states.get(key, 0) + 1
            updated_ms[key] = time_ms
            mapped.append((key, states[key], False))
        for key in [key for key in states if updated_ms[key] < time_ms - TIMEOUT_S * 1000]:
            mapped.append((key, states.pop(key), True))
        for operation, expected in (("mapped", sorted(mapped)), ("snapshot", sorted(states.items()))):
            actual = world.outputs.get((operation, time_ms))
            if actual != expected:
                world.violate(f"{operation} of batch {time_ms} is {actual} and not {expected}")


def _compare(world: World, operation: str, time_ms: int, expected: Counter[int]) -> None:
    values = world.outputs.get((operation, time_ms))
    if values is None:
        world.violate(f"no output {operation} of batch {time_ms}")
        return
    actual = {key: value for key, value in values if value}
    if actual != dict(expected) or len(values) != len(dict(values)):
        world.violate(f"{operation} of batch {time_ms} is {values} and not {sorted(expected.items())}")
