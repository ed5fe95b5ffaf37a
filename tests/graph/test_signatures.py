"""A program written for PySpark's DStreams runs by changing the import: names, order of arguments, defaults."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import streaming

from penstock import DStream, StreamingContext, StreamingListener

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    PAIRS: list[tuple[type, type]] = [(DStream, streaming.DStream), (StreamingContext, streaming.StreamingContext)]

METHODS = [
    pytest.param(getattr(mine, name), getattr(theirs, name), id=f"{mine.__name__}.{name}")
    for mine, theirs in PAIRS
    for name in dir(theirs)
    if not name.startswith("_") and hasattr(mine, name) and callable(getattr(theirs, name))
]


def arguments(function: Callable[..., Any]) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        *METHODS,
        pytest.param(StreamingContext.__init__, streaming.StreamingContext.__init__, id="StreamingContext.__init__"),
    ],
)
def test_a_method_takes_what_pysparks_takes(mine: Callable[..., Any], theirs: Callable[..., Any]) -> None:
    # Further arguments come after.
    assert arguments(mine)[: len(arguments(theirs))] == arguments(theirs)
    assert all(default is not inspect.Parameter.empty for _, _, default in arguments(mine)[len(arguments(theirs)) :])


def test_listeners_have_pysparks_hooks() -> None:
    theirs = {name for name in vars(streaming.StreamingListener) if name.startswith("on")}
    ours = {name for name in vars(StreamingListener) if name.startswith("on")}
    assert ours - theirs == {"onCheckpointFailed", "onStopProgress"}
    assert theirs <= ours
