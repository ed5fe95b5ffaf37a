"""Links from traced messages to the batch that processed them: what a block's headers give, and the hook."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock_ui
from penstock import Block, StoredBlock, hookimpl
from penstock.spi import LocalBlockHandler, Plugins
from penstock_ui.trace_links import MOST_PER_BLOCK, SEARCHED, traceparents_of

Headers = list[tuple[str, str]]
ON = {"spark.penstock.ui.traceLinks": " True "}

AS_MAP = pa.map_(pa.string(), pa.string())
AS_STRUCTS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def context(number: int, flags: str = "01") -> str:
    return f"00-{number:032x}-{number:016x}-{flags}"


def traced(*numbers: int) -> list[Headers]:
    return [[("kind", "order"), ("traceparent", context(number))] for number in numbers]


def table(messages: Sequence[Headers | None], kind: pa.DataType = AS_MAP, name: str = "headers") -> pa.Table:
    rows: list[Any] = list(messages)
    if kind is AS_STRUCTS:
        rows = [message and [(key, value.encode()) for key, value in message] for message in messages]
    return pa.table({"value": ["v"] * len(messages), name: pa.array(rows, kind)})


@pytest.mark.parametrize("kind", [AS_MAP, AS_STRUCTS], ids=["map", "structs"])
@pytest.mark.parametrize("name", ["headers", "properties"])
def test_contexts_are_found_in_each_form_of_headers(kind: pa.DataType, name: str) -> None:
    messages = [None, *traced(1), [], *traced(2, 1), [("TraceParent", context(3))]]
    assert traceparents_of(table(messages, kind, name)) == (context(1), context(2), context(3))


def test_a_slice_of_several_chunks_has_its_own_contexts_only() -> None:
    whole = pa.concat_tables([table(traced(1, 2, 3)), table(traced(4, 5))])
    assert traceparents_of(whole.slice(1, 3)) == (context(2), context(3), context(4))


@pytest.mark.parametrize(
    "value",
    [
        context(1, "00"),
        context(0),
        context(1).upper().replace("0", "A"),
        f"ff{context(1)[2:]}",
        context(1)[:-1],
        f"{context(1)}x",
        "",
        "caf\u00e9",
    ],
)
def test_a_context_that_is_not_valid_or_not_sampled_is_no_link(value: str) -> None:
    assert traceparents_of(table([[("traceparent", value)]])) == ()


def test_a_later_version_is_read_as_far_as_this_one_goes() -> None:
    assert traceparents_of(table([[("traceparent", f"cc{context(1)[2:]}-more")]])) == (f"cc{context(1)[2:]}",)


def test_work_and_result_are_bounded() -> None:
    many = table(traced(*range(1, 3 * SEARCHED)))
    assert traceparents_of(many) == tuple(context(number) for number in range(1, MOST_PER_BLOCK + 1))
    assert traceparents_of(table([*([None] * SEARCHED), *traced(1)])) == ()


@pytest.mark.parametrize(
    "column", [pa.array([1]), pa.array(["text"]), pa.array([[1]]), pa.array([{"traceparent": context(1)}])]
)
def test_a_column_of_another_form_has_no_contexts(column: pa.Array) -> None:
    assert traceparents_of(pa.table({"headers": column})) == ()
    assert traceparents_of(pa.table({"value": column})) == ()


def answer_of(store: object, block: Block, configuration: dict[str, str]) -> Any:
    """What the hook answers where this plugin wraps another implementation."""
    manager = Plugins(entry_points=[]).manager
    manager.register(penstock_ui)
    manager.register(store)
    return manager.hook.store(block=block, configuration=configuration)


def stored(folder: Path, messages: Sequence[Headers | None], configuration: dict[str, str]) -> StoredBlock:
    result: StoredBlock = answer_of(
        LocalBlockHandler(folder), Block("input-0-1-0", 0, len(messages), table(messages)), configuration
    )
    return result


def test_the_hook_adds_the_contexts_to_the_stored_block(tmp_path: Path) -> None:
    assert stored(tmp_path, traced(1, 2), ON).traceparents == (context(1), context(2))
    assert stored(tmp_path, [None], ON).traceparents == ()


@pytest.mark.parametrize("configuration", [{}, {"spark.penstock.ui.traceLinks": "false"}])
def test_the_hook_reads_nothing_unless_links_are_on(
    tmp_path: Path, configuration: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "penstock_ui.trace_links", None)
    assert stored(tmp_path, traced(1), configuration).traceparents == ()


def test_what_another_plugin_returns_is_left_alone() -> None:
    class Odd:
        @hookimpl
        def store(self) -> str:
            return "odd"

    assert answer_of(Odd(), Block("b", 0, 1, table(traced(1))), ON) == "odd"
