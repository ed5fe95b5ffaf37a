"""Stream names: given by the program or counted by operation, and never the same twice."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from tests.checkpoint.samples import FakeProgram, total

from penstock import StateSpec
from penstock.checkpoint.stream_names import is_automatic
from penstock.errors import ConfigurationError


def first_value(_key: str, value: Any, _state: Any) -> Any:
    return value


def test_unnamed_streams_are_counted_by_operation() -> None:
    program = FakeProgram()
    program.state()
    program.output(program.source.mapWithState(StateSpec.function(first_value)))
    program.state()
    assert program.names == ["updateStateByKey-0", "mapWithState-0", "updateStateByKey-1"]


def test_set_name_names_the_state_behind_the_stream() -> None:
    program = FakeProgram()
    program.state("sums")
    program.output(program.source.mapWithState(StateSpec.function(first_value)).setName("seen"))
    program.output(program.source.countByWindow(6, 1).setName("rate"))
    program.output(program.source.reduceByKeyAndWindow(operator.add, operator.sub, 6, 1).setName("slid"))
    assert program.names == ["sums", "seen", "rate", "slid"]


def test_stream_without_an_output_gets_no_name() -> None:
    program = FakeProgram()
    program.source.updateStateByKey(total)
    program.state()
    assert program.names == ["updateStateByKey-0"]


def test_two_streams_with_one_name_are_refused_with_both_call_sites() -> None:
    program = FakeProgram()
    program.state("twice")
    program.state("twice")
    with pytest.raises(ConfigurationError, match=r"'twice', created by .*samples.py:\d+ and .*setName"):
        program.names  # noqa: B018


def test_automatic_name_given_to_another_stream_is_not_used_twice() -> None:
    program = FakeProgram()
    program.state()
    program.state("updateStateByKey-0")
    assert program.names == ["updateStateByKey-1", "updateStateByKey-0"]


@pytest.mark.parametrize("name", ["", " ", 3, None])
def test_set_name_refuses_anything_but_text(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name must be text"):
        FakeProgram().source.setName(name)


@pytest.mark.parametrize(
    ("name", "result"), [("map-0", True), ("map-12", True), ("map-", False), ("map-x", False), ("m-0", False)]
)
def test_automatic_names_are_recognized(name: str, result: bool) -> None:
    assert is_automatic(name, "map") is result
