"""A listener may copy and pickle the event view that it got."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from penstock import BatchCompleted, BatchInfo
from penstock.listen.streaming_listener import EventView


@pytest.mark.parametrize(
    "part",
    [lambda event: event, lambda event: event.batchInfo, lambda event: event.batchInfo()],
    ids=["event", "attribute", "method"],
)
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda event: pickle.loads(pickle.dumps(event))],
    ids=["copy", "deep", "pickle"],
)
def test_view_can_be_copied(copied: Callable[[Any], Any], part: Callable[[Any], Any]) -> None:
    seen = part(EventView(BatchCompleted(BatchInfo(1000, {}, 1010, None, None, {}))))
    assert repr(copied(seen)) == repr(seen)
