"""Compares the outputs of the counting program with each other and with what its source sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from benchmarks.counting_program import KEYS, OUTPUTS, WINDOW
from benchmarks.numbered_source import Source

#: The counts that must be 0.
FAULTS = (
    "lost",
    "more often than sent",
    "lines of files lost",
    "batches missing",
    "batches that differ when run again",
    "wrong states and windows",
)


def outputs(folder: Path, name: str) -> tuple[dict[int, Any], list[str]]:
    """The batches of an output by time, and the batches that differ from an earlier run of the same batch."""
    batches: dict[int, Any] = {}
    differ = []
    for path in sorted((folder / "out").glob(f"{name}-*[0-9]"), key=lambda path: path.stat().st_mtime_ns):
        batch_ms = int(path.name.split("-")[1])
        records = json.loads(path.read_text())
        if batch_ms in batches and batches[batch_ms] != records:
            differ.append(f"{name} of {batch_ms}")
        batches[batch_ms] = records
    return batches, differ


def numbers_by_count(folder: Path) -> Counter[int]:
    """How many batches have each number; a batch that ran again counts once."""
    records, _differ = outputs(folder, "records")
    return Counter(number for batch in records.values() for number in batch)


def batch_times(folder: Path, interval_ms: int, stopped_ms: int = 0) -> Sequence[int]:
    """All batch times from the first one that was written to the last, at least up to the stop."""
    records, _differ = outputs(folder, "records")
    return range(min(records), max(*records, stopped_ms) + 1, interval_ms)


def check(
    folder: Path, source: Source, times: Sequence[int], interval_ms: int, names: Collection[str] = OUTPUTS
) -> dict[str, Any]:
    """Compare the outputs with each other and with the numbers of the source.

    Args:
        folder: of all runs.
        source: has sent the numbers.
        times: the batch times that must have been written, ms.
        interval_ms: batch interval.
        names: of the outputs of the program.

    Returns:
        Counts by name, those of ``FAULTS`` among them; and ``first of them``, the first faulty batches.
    """
    records, differ = outputs(folder, "records")
    missing = [time for time in times if time not in records]
    seen = numbers_by_count(folder)
    keys = Counter[str]()
    wrong: list[str] = []
    results = {}
    files, again = outputs(folder, "files")
    differ += again
    for name in set(names) - {"records", "files"}:
        results[name], again = outputs(folder, name)
        differ += again
    lines = Counter(line for batch in files.values() for line in batch)
    # The first files may have come before the start, which makes them old ones, and the last ones after the last batch.
    oldest, newest = min(map(int, lines), default=0), max(map(int, lines), default=-1)
    written = {line for path in (folder / "in").glob("*.txt") for line in path.read_text().split()}
    for time_ms in times:
        keys.update(f"key {number % KEYS}" for number in records.get(time_ms, ()))
        window = Counter(
            f"key {number % KEYS}" for back in range(WINDOW) for number in records.get(time_ms - back * interval_ms, ())
        )
        expected = {"updated": keys, "mapped": keys, "window": window}
        recent = [line for back in range(WINDOW) for line in files.get(time_ms - back * interval_ms, ())]
        right = {name: sorted([key, count] for key, count in counts.items()) for name, counts in expected.items()}
        right["frames"] = sorted([line, f"key {int(line) % KEYS}"] for line in recent)
        wrong += [f"{name} of {time_ms}" for name, result in results.items() if result.get(time_ms) != right[name]]
    return {
        "acknowledged records": len(source.acknowledged),
        "lost": len(source.acknowledged - seen.keys()),
        "sent again": len(source.resent),
        "more than once": sum(count > 1 for count in seen.values()),
        "more often than sent": sum(count > source.sends[number] for number, count in seen.items()),
        "batches": len(times),
        "batches missing": len(missing),
        "batches that differ when run again": len(differ),
        "wrong states and windows": len(wrong),
        "first of them": [*missing, *wrong, *differ][:5],
        "lines of files": len(lines),
        "lines of files lost": sum(oldest <= int(line) <= newest and line not in lines for line in written),
        "lines of files more than once": sum(count > 1 for count in lines.values()),
        "files of outputs": sum(1 for _ in (folder / "out").iterdir()),
    }


def describe_resends(folder: Path, source: Source, kills: Collection[float]) -> list[str]:
    """One line for each send without an acknowledgement: which kill (monotonic times) cut it off, and its outcome."""
    seen = numbers_by_count(folder)
    lines = []
    for numbers, at in source.cut_off:
        earlier = [number for number, kill in enumerate(kills, 1) if kill <= at]
        cause = f"{at - list(kills)[earlier[-1] - 1]:.1f} s after kill {earlier[-1]}" if earlier else "before any kill"
        counts = {seen[number] for number in numbers}
        outcome = {frozenset({0}): "in no batch", frozenset({1}): "in one batch", frozenset({2}): "in two batches"}
        lines.append(
            f"records {numbers[0]} to {numbers[-1]} not acknowledged, {cause}: "
            f"{outcome.get(frozenset(counts), f'in batches: {sorted(counts)}')}"
        )
    return lines
