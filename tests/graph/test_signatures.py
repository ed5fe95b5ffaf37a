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
    pytest.param(mine, name, getattr(theirs, name), id=f"{mine.__name__}.{name}")
    for mine, theirs in PAIRS
    for name in dir(theirs)
    if not name.startswith("_") and callable(getattr(theirs, name))
]


def arguments(function: Callable[..., Any]) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


@pytest.mark.parametrize(
    ("cls", "name", "theirs"),
    [
        *METHODS,
        pytest.param(StreamingContext, "__init__", streaming.StreamingContext.__init__, id="StreamingContext.__init__"),
    ],
)
def test_every_method_of_pyspark_exists_with_its_arguments(cls: type, name: str, theirs: Callable[..., Any]) -> None:
    mine = arguments(getattr(cls, name))
    expected = arguments(theirs)
    assert mine[: len(expected)] == expected
    assert all(default is not inspect.Parameter.empty for _, _, default in mine[len(expected) :])


# Public names beyond PySpark's.
ONLY_HERE = {
    DStream: {
        *("id", "setName", "mapWithState", "saveAsPickleFiles", "toDF", "foreachDataFrame"),
        *("mapInArrow", "mapInPandas", "groupBy", "foreachTable"),
    },
    StreamingContext: {
        *(
            "receiverStream",
            "socketStream",
            "rawSocketStream",
            "fileStream",
            "input_stream",
            "removeStreamingListener",
            "getState",
            "run",
            "uiWebUrl",
        ),
    },
}


@pytest.mark.parametrize("cls", ONLY_HERE)
def test_there_are_no_other_public_names(cls: type) -> None:
    public = {name for name in dir(cls) if not name.startswith("_")}
    theirs = {name for name in dir(getattr(streaming, cls.__name__)) if not name.startswith("_")}
    assert public - theirs == ONLY_HERE[cls]


def test_listeners_have_pysparks_hooks() -> None:
    theirs = {name for name in vars(streaming.StreamingListener) if name.startswith("on")}
    ours = {name for name in vars(StreamingListener) if name.startswith("on")}
    assert ours - theirs == {"onCheckpointFailed", "onStopProgress"}
    assert theirs <= ours
