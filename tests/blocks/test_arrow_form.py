"""The Arrow form: decoded records equal the encoded ones in type and value."""

import itertools
import math
import pickle
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock.blocks import arrow_form


@attrs.frozen
class Point:
    x: int
    label: str


class Shout(str):
    """A kind of text."""


TEXT = st.text(st.characters(exclude_categories=()), max_size=10)
INTS = st.integers() | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**200])
PLAIN = st.none() | st.booleans() | INTS | st.floats() | TEXT | st.binary(max_size=10)
VALUES = st.recursive(
    PLAIN | st.complex_numbers() | st.builds(Point, st.integers(), TEXT) | st.builds(Shout, TEXT),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXT | st.integers() | st.none(), inner, max_size=3)
        | st.frozensets(TEXT, max_size=3)
    ),
    max_leaves=5,
)
RECORDS = (
    st.lists(VALUES, max_size=20)
    | st.lists(TEXT, max_size=20)
    | st.lists(st.binary(max_size=10), max_size=20)
    | st.lists(INTS, max_size=20)
    | st.lists(st.integers(-5, 5) | st.booleans(), max_size=20)
    | st.lists(st.floats(), max_size=20)
    | st.lists(st.integers(-5, 5) | st.floats(), max_size=20)
    | st.lists(st.none() | TEXT, max_size=20)
)


def same(one: Any, other: Any) -> bool:
    """Equal in type and value, all the way down: NaN as itself, 0.0 apart from -0.0, 1 from True."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return bool(one == other)


def there_and_back(records: list[Any]) -> list[Any]:
    return list(arrow_form.records(arrow_form.encode(records).to_batches()))


def through_a_file(table: pa.Table) -> list[Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    reader = pa.ipc.open_file(sink.getvalue())
    return list(arrow_form.records(map(reader.get_batch, range(reader.num_record_batches))))


@given(RECORDS)
@settings(max_examples=examples(150), derandomize=True, deadline=None)
def test_decoded_records_equal_the_encoded_ones(records: list[Any]) -> None:
    assert same(there_and_back(records), records)


@given(RECORDS)
@settings(max_examples=examples(50), derandomize=True, deadline=None)
def test_records_survive_a_file(records: list[Any]) -> None:
    assert same(through_a_file(arrow_form.encode(records)), records)


@pytest.mark.parametrize(
    ("records", "data_type"),
    [
        (["a", "", "ä\0😀"], pa.string()),
        ([b"a", b"", b"\xff\0"], pa.binary()),
        ([0, -(2**63), 2**63 - 1], pa.int64()),
        ([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324], pa.float64()),
        ([True, False], pa.bool_()),
    ],
    ids=["str", "bytes", "int", "float", "bool"],
)
def test_records_of_one_plain_type_are_a_typed_column(records: list[Any], data_type: pa.DataType) -> None:
    table = arrow_form.encode(records)
    assert table.schema.names == ["value"]
    assert table.schema.field("value").type == data_type
    assert same(there_and_back(records), records)


@pytest.mark.parametrize(
    "records",
    [
        ["a", "\ud800"],
        ["\udcff"],
        [2**63],
        [1, -(2**63) - 1],
        [1, True],
        [True, 1],
        [1, 1.0],
        ["a", b"a"],
        ["a", None],
        [None],
        [Shout("a")],
        [bytearray(b"a")],
        [Point(1, "a")],
        [[1], (1,), {"a": 1}, {1}, frozenset({1})],
        [int],
    ],
    ids=repr,
)
def test_arbitrary_objects_equal_after_decoding(records: list[Any]) -> None:
    assert same(there_and_back(records), records)


def test_empty_block_reads_as_no_records() -> None:
    assert there_and_back([]) == through_a_file(arrow_form.encode([])) == []


@pytest.mark.parametrize("count", [1, 255, 256, 257, 16_384, 16_385, 50_000])
@pytest.mark.parametrize("kind", [str, lambda n: n, lambda n: (n, str(n))], ids=["str", "int", "tuple"])
def test_any_number_of_records_keeps_its_order(kind: Any, count: int) -> None:
    records = [kind(n) for n in range(count)]
    assert through_a_file(arrow_form.encode(records)) == records


def test_many_records_are_several_batches_and_a_reader_holds_one() -> None:
    for records in ([str(n) for n in range(40_000)], [(n,) for n in range(40_000)]):
        batches = arrow_form.encode(records).to_batches()
        taken: list[int] = []
        one_by_one = arrow_form.records(taken.append(n) or batch for n, batch in enumerate(batches))  # type: ignore[func-returns-value]  # notes what was asked for
        assert next(one_by_one) == records[0]
        assert taken == [0]
    assert len(arrow_form.encode([str(n) for n in range(40_000)]).to_batches()) == 3


@given(
    st.lists(st.integers(0, 3000), max_size=4),
    st.lists(st.integers(0, 9000), max_size=3, unique=True),
    st.sampled_from([str, lambda n: (n,)]),
)
@settings(max_examples=examples(30), derandomize=True, deadline=None)
def test_consecutive_pieces_have_every_record_once_and_in_order(counts: list[int], cuts: list[int], kind: Any) -> None:
    numbers = iter(range(10_000))
    runs = [[kind(n) for n in itertools.islice(numbers, count)] for count in counts]
    batches = [batch for run in runs for batch in arrow_form.encode(run).to_batches()]
    records, cuts = [record for run in runs for record in run], sorted(cuts)
    bounds = list(zip([0, *cuts], [*cuts, None], strict=True))
    pieces = [list(arrow_form.records(arrow_form.piece(batches, first, end))) for first, end in bounds]
    assert [record for piece in pieces for record in piece] == records
    if kind is str:
        assert pieces == [records[first:end] for first, end in bounds]


def test_a_class_of_the_main_program_travels_by_value() -> None:
    # As in a Python worker: the class says it is of a module that does not have it.
    local_class = type(
        "Local", (), {"__module__": "__main__", "__eq__": lambda a, b: vars(a) == vars(b), "__hash__": None}
    )
    record = local_class()
    record.value = 5
    (back,) = there_and_back([record])
    assert (type(back).__name__, back.value) == ("Local", 5)


def test_unpicklable_record_is_an_error() -> None:
    class Refuses:
        def __reduce__(self) -> str:
            raise pickle.PicklingError("not this one")

    with pytest.raises(pickle.PicklingError, match="not this one"):
        arrow_form.encode([1, Refuses()])


def test_a_plain_column_is_never_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    record = pickle.dumps("x")
    table = arrow_form.encode([record])
    monkeypatch.setattr(pickle, "loads", lambda _data: pytest.fail("unpickled"))
    assert list(arrow_form.records(table.to_batches())) == [record]
