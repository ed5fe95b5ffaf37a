"""Block store checks BS-01 to BS-11: what is stored is read back, whole or not at all."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from attrs import evolve

from penstock.errors import PenstockError
from penstock.testing.block_store import BlockStoreKit
from penstock.testing.check import NotApplicable, check, fail

# A block that takes several writes, and one that does not.
_BIG = [f"record {number} " + "x" * 200 for number in range(500)]
_SMALL = ["a", "b", "c"]
_DAMAGES = 40


@check("BS-01", "must", change="return block.stored(path, num_bytes, checksum), and write the table unchanged")
def put_get_round_trip(kit: BlockStoreKit) -> None:
    """What is read equals what was stored, in value and type, and the answer describes it.

    Purpose: a block store must not change data.
    Method: store blocks of each type of record, and read them back in the reverse order.
    Condition: equal records; block id, stream id, number of records and metadata are those of the block.
    Requires: nothing.
    """
    store = kit.store()
    kinds: list[list[Any]] = [
        ["", "text", "\x00", "😀"],
        [b"", b"\x00\xff"],
        [-1, 0, 2**63 - 1],
        [0.5, float("inf"), -0.0],
        [True, False],
        [None, 1, "mixed", (1, [2]), {"k": {3}}, 2**80],
    ]
    metadata = {"offset": 7, "name": "é"}
    stored = []
    for number, records in enumerate(kinds):
        block = kit.block(number, records, metadata)
        answer = store.store(block)
        described = (block.block_id, block.stream_id, block.num_records, metadata)
        found = answer and (answer.block_id, answer.stream_id, answer.num_records, answer.metadata)
        if found != described:
            fail(f"the answer describes {found}, the block is {described}", records)
        stored.append(answer)
    for answer, records in reversed(list(zip(stored, kinds, strict=True))):
        assert answer is not None
        found_records = kit.read(store, answer)
        if repr(found_records) != repr(records):
            fail(f"read {found_records!r}", f"a block of {records!r}")


@check("BS-02", "must", change="raise an error that derives from PenstockError, LookupError or FileNotFoundError")
def missing_key_typed_error(kit: BlockStoreKit) -> None:
    """Reading a block that does not exist raises a typed error.

    Purpose: a task that finds a block missing must tell it from one that it cannot reach now.
    Method: read a block that was never stored, beside one that was.
    Condition: a PenstockError, LookupError or FileNotFoundError.
    Requires: nothing.
    """
    store = kit.store()
    stored = kit.put(store, 1, _SMALL)
    missing = evolve(stored, block_id="input-0-0-99", path=stored.path.replace("input-0-0-1", "input-0-0-99"))
    if missing.path == stored.path:
        missing = evolve(missing, path=f"{stored.path}.missing")
    found = kit.read(store, missing)
    if not isinstance(found, PenstockError | LookupError | FileNotFoundError):
        fail(f"reading returned {found!r}", missing.block_id)


@check("BS-03", "must", change="write to a temporary name, then rename; report the block after the rename")
def put_is_atomic(kit: BlockStoreKit) -> None:
    """A block appears whole or not at all, wherever a store is interrupted.

    Purpose: the driver, its recovery and other tasks read the store while it is written.
    Method: copy the folder between every two writes of a store, as a process killed then would leave it.
    Condition: in each copy the earlier block is whole, and the new one is whole or missing.
    Requires: a store that writes into its folder.
    """
    store = kit.store()
    first, stored = kit.put(store, 1, _SMALL), []
    points = kit.crash_points(lambda: stored.append(kit.put(store, 2, _BIG)))
    for point in points:
        where = f"a kill at point {point.number} of {len(points)} of a store of {len(_BIG)} records"
        reopened = kit.store(point.folder)
        if (found := kit.read(reopened, kit.moved(first, point.folder))) != _SMALL:
            fail(f"the block stored before reads as {_shown(found)}", where)
        found = kit.read(reopened, kit.moved(stored[0], point.folder))
        if found != _BIG and not _is_missing(found):
            fail(f"the interrupted block reads as {_shown(found)}", where)


@check("BS-04", "must", requires="durable", change="call fsync on the file and its folder before store returns")
def acknowledged_is_durable(kit: BlockStoreKit) -> None:
    """A stored block survives the death of its process and of its host.

    Purpose: a receiver acknowledges upstream when ``store_all`` returns.
    Method: count the calls of fsync during a store; then open a copy of the folder as a new process would.
    Condition: at least one fsync before ``store`` returned, and the block is read from the copy.
    Requires: Capabilities.durable.
    """
    store = kit.store()
    synced: list[int] = []
    fsync = os.fsync

    def record(descriptor: Any) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    os.fsync = record  # type: ignore[assignment]  # as os.fsync, with any descriptor
    try:
        stored = kit.put(store, 1, _SMALL)
    finally:
        os.fsync = fsync
    copy = kit.copy("after-kill")
    if (found := kit.read(kit.store(copy), kit.moved(stored, copy))) != _SMALL:
        fail(f"after a restart the block reads as {_shown(found)}", _SMALL)
    if not synced:
        fail("store returned without a call of fsync", _SMALL)


@check("BS-05", "must", change="replace the whole block, or raise before anything is written")
def duplicate_put_policy(kit: BlockStoreKit) -> None:
    """A block stored again under its id replaces the first or is refused; the two never mix.

    Purpose: a retry stores the same block again.
    Method: store a block, the same again, and another under the same id.
    Condition: the same again reads as before; the other reads whole, or was refused and the first is whole.
    Requires: nothing.
    """
    store = kit.store()
    kit.put(store, 1, _SMALL)
    again = kit.put(store, 1, _SMALL)
    if (found := kit.read(store, again)) != _SMALL:
        fail(f"stored twice, the block reads as {_shown(found)}", _SMALL)
    try:
        other = store.store(kit.block(1, ["z"]))
    except Exception:
        if (found := kit.read(store, again)) != _SMALL:
            fail(f"after a refused store the block reads as {_shown(found)}", _SMALL)
        return
    if other is None or kit.read(store, other) != ["z"]:
        seen = "the store returned None" if other is None else f"it reads as {_shown(kit.read(store, other))}"
        fail(f"after another block under its id {seen}", "['a', 'b', 'c'], then ['z']")


@check("BS-06", "must", change="ignore ids that do not exist, and accept names of blocks only, never paths")
def delete_is_idempotent(kit: BlockStoreKit) -> None:
    """Deleting a block twice, or one that never existed, is no error and touches nothing else.

    Purpose: the driver repeats deletions after a restart, and ids come over the wire.
    Method: delete a block twice, an unknown one, and ids that are paths out of the folder.
    Condition: no error; the block is gone, the other one and the file outside are there.
    Requires: delete.
    """
    store = kit.store()
    stored, other = kit.put(store, 1, _SMALL), kit.put(store, 2, ["other"])
    outside = kit.folder / "outside.arrow"
    outside.write_bytes(b"not a block")
    for ids in (
        [stored.block_id],
        [stored.block_id, stored.block_id],
        ["input-0-0-99"],
        ["../outside", "../../outside"],
    ):
        try:
            store.delete(ids)
        except NotApplicable:
            raise
        except Exception as error:
            fail(f"delete raised {type(error).__name__}: {error}", ids)
    if not outside.exists():
        fail("delete removed a file outside the store's folder", "../outside")
    if not _is_missing(found := kit.read(store, stored)):
        fail(f"the deleted block reads as {_shown(found)}", stored.block_id)
    if (found := kit.read(store, other)) != ["other"]:
        fail(f"another block reads as {_shown(found)}", f"delete of {stored.block_id}")


@check("BS-07", "must", change="list by the number in the block id, not by name or time of modification")
def listing_complete_and_ordered(kit: BlockStoreKit) -> None:
    """The listing has every block once, in the order of numbers.

    Purpose: a recovery replays what the listing names.
    Method: store blocks 12 to 1, delete three, list; open the store again, list.
    Condition: the other nine, in the order of numbers, both times.
    Requires: names, delete.
    """
    store = kit.store()
    for number in range(12, 0, -1):
        kit.put(store, number, [number])
    store.delete([f"input-0-0-{number}" for number in (2, 10, 12)])
    expected = [f"input-0-0-{number}" for number in (1, 3, 4, 5, 6, 7, 8, 9, 11)]
    for found in (store.names(), _reopened(kit, store).names()):
        if found != expected:
            fail(f"the listing is {found}, expected {expected}", "blocks 12 to 1, without 2, 10 and 12")


@check("BS-08", "must", change="delete only what was asked for")
def cleanup_keeps_newer(kit: BlockStoreKit) -> None:
    """Deleting old blocks keeps every newer one readable.

    Purpose: each batch's blocks are deleted while the next ones are stored.
    Method: store 20 blocks; delete the first k, for several k, and read all others.
    Condition: the others are whole.
    Requires: delete.
    """
    store = kit.store()
    stored = [kit.put(store, number, [number, "x" * number]) for number in range(20)]
    for count in (1, 2, 11, 19):
        store.delete([each.block_id for each in stored[:count]])
        for number in range(count, 20):
            if (found := kit.read(store, stored[number])) != [number, "x" * number]:
                fail(f"block {number} reads as {_shown(found)}", f"delete of blocks 0 to {count - 1}")


@check("BS-09", "must", change="save the highest number, apart from the blocks")
def sequence_never_reset(kit: BlockStoreKit) -> None:
    """Numbers never start again: neither after deletions nor after the store was opened again.

    Purpose: two blocks with one number are one block for the driver.
    Method: store blocks, delete all, open the store again, each time asking for the next number.
    Condition: the next number never falls.
    Requires: next_number, delete.
    """
    store = kit.store()
    before = store.next_number()
    ids = [kit.put(store, before + index, [index]).block_id for index in range(3)]
    for what in ("three blocks", "their deletion", "opening the store again"):
        if what == "their deletion":
            store.delete(ids)
        elif what == "opening the store again":
            store = _reopened(kit, store)
        now = store.next_number()
        if now < before + 3:
            fail(f"the next number is {now}, it was {before} before three blocks were stored", f"after {what}")


@check("BS-10", "must", change="write a length or a footer last, and verify it before the first record")
def torn_tail_dropped(kit: BlockStoreKit) -> None:
    """A truncated file never yields data, and spoils no other block.

    Purpose: a power failure truncates what was not synced.
    Method: truncate the file of the last block at 40 seeded lengths, each in a copy of the folder.
    Condition: reading the block raises, or gives all of it; the earlier block is whole.
    Requires: a store that writes into its folder.
    """
    first, stored, name, size = _last_written(kit)
    for length in sorted({0, 1, size - 1, *(kit.rng.randrange(size) for _ in range(_DAMAGES))}):
        copy = kit.copy(f"torn-{length}")
        os.truncate(copy / name, length)
        reopened = kit.store(copy)
        where = f"{name} truncated from {size} to {length} bytes"
        if (found := kit.read(reopened, kit.moved(stored, copy))) != _SMALL and not isinstance(found, Exception):
            fail(f"the block reads as {_shown(found)}", where)
        if (found := kit.read(reopened, kit.moved(first, copy))) != ["first"]:
            fail(f"the block stored before reads as {_shown(found)}", where)


@check(
    "BS-11", "must", requires="verified", change="save a checksum with the block, and verify it before the first record"
)
def corruption_detected(kit: BlockStoreKit) -> None:
    """A flipped bit gives an error, never other data.

    Purpose: a disk that lies must not change results.
    Method: flip one bit of the file of the last block at 40 seeded places, each in a copy of the folder.
    Condition: reading the block raises, or gives exactly what was stored.
    Requires: Capabilities.verified.
    """
    _, stored, name, size = _last_written(kit)
    for position in sorted({0, size - 1, *(kit.rng.randrange(size) for _ in range(_DAMAGES))}):
        copy = kit.copy(f"flipped-{position}")
        bit = 1 << kit.rng.randrange(8)
        data = bytearray((copy / name).read_bytes())
        data[position] ^= bit
        (copy / name).write_bytes(data)
        if (found := kit.read(kit.store(copy), kit.moved(stored, copy))) != _SMALL and not isinstance(found, Exception):
            fail(f"the block reads as {_shown(found)}", f"{name}: byte {position} of {size} xor {bit:#04x}")


def _last_written(kit: BlockStoreKit) -> tuple[Any, Any, Path, int]:
    """Store two blocks: both, and the file that the second one added or changed, with its size.

    Raises:
        NotApplicable: the second one changed no file of the folder.
    """
    store = kit.store()
    first = kit.put(store, 1, ["first"])
    before = kit.files()
    stored = kit.put(store, 2, _SMALL)
    store.close()
    changed = Counter(kit.files()) - Counter(before)
    if not changed:
        raise NotApplicable("the store writes nothing into the folder that make(folder) got")
    name, _ = changed.most_common(1)[0]
    return first, stored, Path(name), kit.files()[name]


def _reopened(kit: BlockStoreKit, store: Any) -> Any:
    store.close()
    return kit.store()


def _is_missing(found: Any) -> bool:
    return isinstance(found, PenstockError | LookupError | FileNotFoundError)


def _shown(found: Any) -> str:
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found}"
    return f"{len(found)} records, {repr(found[:5])[:200]}" if isinstance(found, list) else repr(found)
