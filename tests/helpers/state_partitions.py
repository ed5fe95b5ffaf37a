"""What tests of the partition functions of state and windows share: a small worker, and pairs between batches."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyspark.shuffle
import pytest
from hypothesis import HealthCheck, settings
from tests.helpers.examples import examples
from tests.helpers.spilling import into_few_files

from penstock.worker import combine
from penstock_state import state_pairs

Pairs = list[tuple[Any, Any]]

#: A memory limit, in MB, that is never reached.
AMPLE = 1e9


def settled(max_examples: int) -> settings:
    """Settings of property tests that use function-scoped fixtures."""
    return settings(
        deadline=None,
        derandomize=True,
        max_examples=examples(max_examples),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@pytest.fixture
def small_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker that uses 100 MB, looks at its memory often, spills into the test's folder; small groups."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # PySpark's hash of keys asks for it
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(pyspark.shuffle, "get_used_memory", lambda: 100)
    monkeypatch.setattr(combine, "_RECORDS_PER_CHECK", 3)
    into_few_files(monkeypatch)
    monkeypatch.setattr(state_pairs, "_PARTS", (1, 1))


def moved(elements: Iterable[Any]) -> list[Any]:
    """As Spark moves what a task makes to the next one."""
    moved: list[Any] = pickle.loads(pickle.dumps(list(elements)))
    return moved


def by_key(pairs: Pairs) -> dict[Any, list[Any]]:
    """The values of each key."""
    values: dict[Any, list[Any]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return values


def distinct(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Pairs as a dictionary; no key is there twice."""
    listed = list(pairs)
    assert len(listed) == len(dict(listed))
    return dict(listed)
