"""``LocalBlockHandler``: a file appears whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import Block
from penstock.blocks import arrow_form
from penstock.blocks.arrow_form import open_block_file
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.errors import BlockGoneError

MakeBlock = Callable[..., Block]


def read(reader: pa.ipc.RecordBatchFileReader) -> list[Any]:
    return list(arrow_form.records(map(reader.get_batch, range(reader.num_record_batches))))


def files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "blocks").glob("*"))


def test_stored_block_has_path_size_and_metadata(
    store: LocalBlockHandler, make_block: MakeBlock, tmp_path: Path
) -> None:
    stored = store.store(make_block(["a", "b"], metadata={"offset": 5}))
    path = tmp_path / "blocks" / "input-0-1-0.arrow"
    assert (stored.block_id, stored.stream_id, stored.num_records) == ("input-0-1-0", 0, 2)
    assert (stored.path, stored.num_bytes, stored.metadata) == (str(path), path.stat().st_size, {"offset": 5})
    assert files(tmp_path) == ["input-0-1-0.arrow"]


@pytest.mark.parametrize(
    "records", [["a", "b"], [1, "mixed", None], [], list(range(40_000))], ids=["typed", "pickled", "none", "many"]
)
def test_stored_records_are_read_back(store: LocalBlockHandler, make_block: MakeBlock, records: list[Any]) -> None:
    stored = store.store(make_block(records))
    assert read(store.open("input-0-1-0")) == records
    assert read(open_block_file(stored.path)) == records


def test_nothing_is_created_before_the_first_block(store: LocalBlockHandler, tmp_path: Path) -> None:
    assert store.delete(["input-0-1-0"]) == 0
    with pytest.raises(BlockGoneError):
        store.open("input-0-1-0")
    assert list(tmp_path.iterdir()) == []


def test_missing_block_is_gone(store: LocalBlockHandler, make_block: MakeBlock) -> None:
    store.store(make_block([1]))
    with pytest.raises(BlockGoneError, match="input-0-1-1"):
        store.open("input-0-1-1")


def test_delete_can_be_repeated(store: LocalBlockHandler, make_block: MakeBlock, tmp_path: Path) -> None:
    for n in range(3):
        store.store(make_block([n], f"input-0-1-{n}"))
    assert store.delete(["input-0-1-0", "input-0-1-2", "input-0-9-9"]) == 2
    assert store.delete(["input-0-1-0", "input-0-1-2"]) == 0
    assert files(tmp_path) == ["input-0-1-1.arrow"]
    with pytest.raises(BlockGoneError):
        store.open("input-0-1-0")


def test_open_block_can_be_read_after_its_deletion(store: LocalBlockHandler, make_block: MakeBlock) -> None:
    records = [str(n) for n in range(40_000)]
    store.store(make_block(records))
    reader = store.open("input-0-1-0")
    first = reader.get_batch(0)
    assert store.delete(["input-0-1-0"]) == 1
    rest = [reader.get_batch(n) for n in range(1, reader.num_record_batches)]
    assert list(arrow_form.records([first, *rest])) == records


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/passwd", "a/../../outside", "..", ".", ".hidden", "sub/block", "../blocks/input-0-1-0"]
)
def test_name_of_another_directory_is_refused(
    store: LocalBlockHandler, make_block: MakeBlock, tmp_path: Path, name: str
) -> None:
    store.store(make_block([1]))
    outside = tmp_path / "outside.arrow"
    outside.write_bytes((tmp_path / "blocks" / "input-0-1-0.arrow").read_bytes())
    with pytest.raises(BlockGoneError):
        store.open(name)
    store.delete([name])
    assert outside.exists()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()], ids=repr
)
def test_failed_write_leaves_nothing(
    store: LocalBlockHandler,
    make_block: MakeBlock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    store.store(make_block(["before"], "input-0-1-9"))
    block = make_block([str(n) for n in range(40_000)])
    new_file = pa.ipc.new_file

    class Failing:
        """Writes a part to the disk, then fails."""

        def __init__(self, sink: Any, schema: pa.Schema, options: pa.ipc.IpcWriteOptions) -> None:
            self._writer = new_file(sink, schema, options=options)

        def __enter__(self) -> "Failing":
            return self

        def __exit__(self, *raised: object) -> None:
            self._writer.close()

        def write_table(self, table: pa.Table, max_chunksize: int) -> None:
            self._writer.write_batch(table.to_batches()[0])
            assert [path.suffix for path in (tmp_path / "blocks").iterdir()].count(".partial") == 1
            raise error

    monkeypatch.setattr(pa.ipc, "new_file", Failing)
    with pytest.raises(type(error)):
        store.store(block)
    assert files(tmp_path) == ["input-0-1-9.arrow"]
    monkeypatch.undo()
    store.store(block)
    assert len(read(store.open("input-0-1-0"))) == 40_000


def test_failed_replace_leaves_the_old_block(
    store: LocalBlockHandler, make_block: MakeBlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.store(make_block(["old"]))

    def fail(_path: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left on device"):
        store.store(make_block(["new"]))
    assert files(tmp_path) == ["input-0-1-0.arrow"]
    assert read(store.open("input-0-1-0")) == ["old"]


def test_file_instead_of_the_directory_is_an_error(make_block: MakeBlock, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(OSError, match="taken"):
        LocalBlockHandler(tmp_path / "taken").store(make_block([1]))
    assert (tmp_path / "taken").read_text() == "x"


def test_blocks_are_mapped_and_not_read(store: LocalBlockHandler, make_block: MakeBlock) -> None:
    store.store(make_block(["x" * 1000] * 10_000))
    before = pa.total_allocated_bytes()
    reader = store.open("input-0-1-0")
    batch = reader.get_batch(0)
    assert batch.nbytes > 9_000_000
    assert pa.total_allocated_bytes() - before < 100_000
