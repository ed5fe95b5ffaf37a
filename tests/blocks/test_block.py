"""``Block`` and its descriptions."""

from collections.abc import Callable

from penstock import Block, StoredBlock


def test_a_block_reads_as_its_records(make_block: Callable[..., Block]) -> None:
    assert list(make_block(["a", "b"]).records()) == ["a", "b"]
    assert list(make_block([1, None]).records()) == [1, None]


def test_repr_of_a_block_has_no_records(make_block: Callable[..., Block]) -> None:
    assert "secret" not in repr(make_block(["secret"], metadata={"password": "secret"}))


def test_stored_blocks_compare_by_what_is_known() -> None:
    assert StoredBlock("b", 0, 1, 2, "/p") == StoredBlock("b", 0, 1, 2, "/p", None)
    assert StoredBlock("b", 0, 1, 2, "/p") != StoredBlock("c", 0, 1, 2, "/p")
