"""Reading blocks inside a task: from the file, or by Arrow Flight."""

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from penstock import Block
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_transfer import open_block
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.errors import BlockGoneError, BlockUnreachableError
from penstock.wire.endpoint import Endpoint
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks, read_block

MakeBlock = Callable[..., Block]
TOKEN = Token("t")


@pytest.fixture
def source(store: LocalBlockHandler) -> Iterator[str]:
    """The address of an endpoint that serves the store's blocks."""
    endpoint = Endpoint("127.0.0.1", TOKEN, {}, partial(open_block, store.open))
    yield f"grpc://127.0.0.1:{endpoint.port}"
    endpoint.stop()


def records(reference: BlockReference, token: Token = TOKEN) -> list[Any]:
    return list(arrow_form.records(read_block(reference, token)))


def test_a_block_on_this_host_is_read_from_its_file(store: LocalBlockHandler, make_block: MakeBlock) -> None:
    stored = store.store(make_block(["a", "b"]))
    assert records(BlockReference(stored.block_id, stored.path, 2, source="grpc://127.0.0.1:1")) == ["a", "b"]


@pytest.mark.parametrize(
    "block", [["a", "b"], [1, None, "x"], [], list(range(40_000))], ids=["typed", "pickled", "none", "many"]
)
def test_block_of_another_host_is_fetched(
    store: LocalBlockHandler, make_block: MakeBlock, source: str, block: list[Any]
) -> None:
    stored = store.store(make_block(block))
    assert records(BlockReference(stored.block_id, "/not/on/this/host.arrow", len(block), source)) == block


def test_block_of_another_host_without_an_endpoint_is_lost() -> None:
    with pytest.raises(BlockGoneError, match=r"input-0-1-0 \(7 records\) is lost"):
        records(BlockReference("input-0-1-0", "/not/on/this/host.arrow", 7, ""))


def test_error_names_an_endpoint_without_the_block(source: str) -> None:
    with pytest.raises(BlockGoneError, match=rf"input-0-1-0 \(7 records\) cannot be fetched from {source}"):
        records(BlockReference("input-0-1-0", "/not/on/this/host.arrow", 7, source))


def test_error_names_an_endpoint_that_is_down(store: LocalBlockHandler, make_block: MakeBlock) -> None:
    with pytest.raises(BlockUnreachableError, match=r"cannot be fetched from grpc://127\.0\.0\.1:1:") as caught:
        records(BlockReference("input-0-1-0", "/not/on/this/host.arrow", 7, "grpc://127.0.0.1:1"))
    assert "let the port, which spark.penstock.receiver.port fixes, through firewalls" in str(caught.value)


def test_a_source_does_not_serve_strangers(store: LocalBlockHandler, make_block: MakeBlock, source: str) -> None:
    stored = store.store(make_block(["secret"]))
    with pytest.raises(BlockUnreachableError) as caught:
        records(BlockReference(stored.block_id, "/not/on/this/host.arrow", 1, source), Token("another"))
    assert "secret" not in str(caught.value)


def test_a_source_does_not_serve_other_files(
    store: LocalBlockHandler, make_block: MakeBlock, source: str, tmp_path: Path
) -> None:
    stored = store.store(make_block(["a"]))
    Path(stored.path).rename(tmp_path / "outside.arrow")
    for name in ("../outside", str(tmp_path / "outside")):
        with pytest.raises(BlockGoneError):
            records(BlockReference(name, "/not/on/this/host.arrow", 1, source))


@pytest.mark.parametrize("is_here", [True, False], ids=["from its file", "fetched"])
@pytest.mark.parametrize("kind", [int, lambda n: (n, None)], ids=["typed", "pickled"])
def test_partitions_read_their_pieces_of_a_block(
    store: LocalBlockHandler, make_block: MakeBlock, source: str, kind: Callable[[int], Any], is_here: bool
) -> None:
    block = [kind(n) for n in range(40_000)]
    stored = store.store(make_block(block))
    path = stored.path if is_here else "/not/on/this/host.arrow"
    whole = BlockReference(stored.block_id, path, len(block), source)
    pieces = [evolve(whole, records=records) for records in ((0, 10_240), (10_240, 33_024), (33_024, None))]
    read = ReadBlocks(TOKEN)
    assert [list(read(0, [(piece,)])) for piece in pieces] == [block[:10_240], block[10_240:33_024], block[33_024:]]
    assert [read(0, [(piece,)]).count_records() for piece in pieces] == [10_240, 22_784, 6_976]


def test_a_partition_reads_its_blocks_in_order(store: LocalBlockHandler, make_block: MakeBlock) -> None:
    stored = [store.store(make_block([f"{n}a", f"{n}b"], f"input-0-1-{n}")) for n in range(4)]
    references = [BlockReference(block.block_id, block.path, 2, "") for block in stored]
    partition = iter([tuple(references[:3]), tuple(references[3:])])
    read = pickle.loads(pickle.dumps(ReadBlocks(TOKEN)))
    assert list(read(0, partition)) == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]


def test_blocks_are_read_when_their_records_are(store: LocalBlockHandler, make_block: MakeBlock) -> None:
    stored = store.store(make_block(["a"]))
    here = BlockReference(stored.block_id, stored.path, 1, "")
    gone = BlockReference("input-0-1-1", "/not/on/this/host.arrow", 1, "")
    reading = ReadBlocks(TOKEN)(0, [(here, gone)])
    assert next(reading) == "a"
    with pytest.raises(BlockGoneError):
        next(reading)
