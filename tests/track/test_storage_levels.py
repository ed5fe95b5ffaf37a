"""A storage level that asks for replication is warned about once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import StorageLevel

from penstock import Receiver

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


@pytest.mark.parametrize(
    ("master", "levels", "logged"),
    [
        ("spark://somewhere:7077", [StorageLevel.MEMORY_AND_DISK_2, None, StorageLevel.DISK_ONLY_3], [logging.WARNING]),
        ("local[8]", [StorageLevel.MEMORY_AND_DISK_2, None, StorageLevel.DISK_ONLY_3], [logging.INFO]),
        ("spark://somewhere:7077", [StorageLevel.MEMORY_ONLY, None], []),
    ],
    ids=["cluster", "one machine", "no copies"],
)
def test_replicated_storage_level_is_warned_about_once(
    make_tracker: Callable[..., Tracked],
    silent: type[Receiver[Any]],
    caplog: pytest.LogCaptureFixture,
    master: str,
    levels: list[StorageLevel | None],
    logged: list[int],
) -> None:
    receivers = [silent() for _ in levels]
    for receiver, level in zip(receivers, levels, strict=True):
        receiver.storageLevel = level
    with caplog.at_level(logging.INFO, logger="penstock"):
        make_tracker(receivers, master=master).launcher.check()
    said = [record for record in caplog.records if "not replicated" in record.getMessage()]
    assert [record.levelno for record in said] == logged
    assert all("stream_ids=[0, 2]" in record.getMessage() for record in said)
