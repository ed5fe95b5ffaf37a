"""Block store checks BS-01 to BS-11: a stored block is read back completely, or not at all."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from attrs import evolve

from penstock.errors import PenstockError
from penstock_testing.block_store import BlockStoreKit
from penstock_testing.check import NotApplicable, check, fail

# A block that takes several writes, and one that does not.
_BIG = [f"record {number} " + "x" * 200 for number in range(500)]
_SMALL = ["a", "b", "c"]
_DAMAGES = 40


@check("BS-01", "must", change="return block.stored(path, num_bytes, checksum), and write the table unchanged")
def put_get_round_trip(kit: BlockStoreKit) -> None:
    """A block is read as it was stored, in value and type, and the returned StoredBlock describes it.

    Purpose: a block store must not change data.
    Method: store blocks of each type of record, and read them back in the reverse order.
    Condition: the records are equal; block id, stream id, number of records and metadata are those of the block.
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
            fail(f"the returned StoredBlock describes {found}, and the block is {described}", records)
        stored.append(answer)
    for answer, records in reversed(list(zip(stored, kinds, strict=True))):
        assert answer is not None
        found_records = kit.read(store, answer)
        if repr(found_records) != repr(records):
            fail(f"the block reads as {found_records!r}", f"a block of {records!r}")


@check("BS-02", "must", change="raise an error that derives from PenstockError, LookupError or FileNotFoundError")
def missing_key_typed_error(kit: BlockStoreKit) -> None:
    """Reading a block that does not exist raises a typed error.

    Purpose: a task must distinguish a missing block from one that is temporarily unreachable.
    Method: store a block, then read another one that was never stored.
    Condition: the read raises a PenstockError, LookupError or FileNotFoundError.
    Requires: nothing.
    """
    store = kit.store()
    stored = kit.put(store, 1, _SMALL)
    missing = evolve(stored, block_id="input-0-0-99", path=stored.path.replace("input-0-0-1", "input-0-0-99"))
    if missing.path == stored.path:
        missing = evolve(missing, path=f"{stored.path}.missing")
    found = kit.read(store, missing)
    if not isinstance(found, PenstockError | LookupError | FileNotFoundError):
        fail(f"reading a block that does not exist gave {found!r}", missing.block_id)


@check("BS-03", "must", change="write to a temporary name, then rename; report the block after the rename")
def put_is_atomic(kit: BlockStoreKit) -> None:
    """An interrupted store leaves a complete block or none.

    Purpose: the driver, its recovery and tasks read the store while receivers write to it.
    Method: copy the folder between every two writes of a store, as a process killed at this moment would leave it.
    Condition: in each copy the earlier block is complete, and the new one is complete or missing.
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
    """A stored block survives a crash of the process and of the host.

    Purpose: a receiver acknowledges upstream when ``store_all`` returns.
    Method: count the calls of fsync during a store; then read the block from a copy of the folder.
    Condition: the store calls fsync at least once before it returns, and the block is read from the copy.
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
        fail("store returned without a call of fsync, so the block may be lost with its host", _SMALL)


@check("BS-05", "must", change="replace the whole block, or raise before anything is written")
def duplicate_put_policy(kit: BlockStoreKit) -> None:
    """A second block with the same id replaces the first or is refused; the two never mix.

    Purpose: a retry stores the same block again.
    Method: store a block, the same block again, and another block with the same id.
    Condition: after the second store the block reads as before. The other block reads completely, or the store refused
        it and the first block reads completely.
    Requires: nothing.
    """
    store = kit.store()
    kit.put(store, 1, _SMALL)
    again = kit.put(store, 1, _SMALL)
    if (found := kit.read(store, again)) != _SMALL:
        fail(f"after the same block was stored twice, it reads as {_shown(found)}", _SMALL)
    try:
        other = store.store(kit.block(1, ["z"]))
    except Exception:
        if (found := kit.read(store, again)) != _SMALL:
            fail(f"after a refused store with the same id the block reads as {_shown(found)}", _SMALL)
        return
    if other is None or kit.read(store, other) != ["z"]:
        seen = "store returned None" if other is None else f"it reads as {_shown(kit.read(store, other))}"
        fail(f"after another block was stored with the same id, {seen}", "['a', 'b', 'c'], then ['z']")


@check("BS-06", "must", change="ignore ids that do not exist, and accept names of blocks only, never paths")
def delete_is_idempotent(kit: BlockStoreKit) -> None:
    """The deletion of a deleted or unknown block raises nothing and deletes nothing else.

    Purpose: the driver repeats deletions after a restart, and receives ids over the network.
    Method: delete a block twice, an unknown block, and ids that are paths out of the folder.
    Condition: no deletion raises; the block does not exist any more; the other block and a file outside of the folder
        do.
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
        fail("delete removed a file outside of the store's folder", "../outside")
    if not _is_missing(found := kit.read(store, stored)):
        fail(f"the deleted block reads as {_shown(found)}", stored.block_id)
    if (found := kit.read(store, other)) != ["other"]:
        fail(f"after a deletion another block reads as {_shown(found)}", f"delete of {stored.block_id}")


@check("BS-07", "must", change="list by the number in the block id, not by name or time of modification")
def listing_complete_and_ordered(kit: BlockStoreKit) -> None:
    """The listing has every block once, in the order of block numbers.

    Purpose: a recovery replays the listed blocks.
    Method: store blocks 12 to 1, delete three of them, list; reopen the store, list again.
    Condition: both listings have the other nine blocks in the order of their numbers.
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


@check("BS-08", "must", change="delete only the blocks with the given ids")
def cleanup_keeps_newer(kit: BlockStoreKit) -> None:
    """After the deletion of old blocks every newer one is readable.

    Purpose: the driver deletes a batch's blocks while receivers store the next ones.
    Method: store 20 blocks; delete the first k, for several k, and read all others.
    Condition: the others are complete.
    Requires: delete.
    """
    store = kit.store()
    stored = [kit.put(store, number, [number, "x" * number]) for number in range(20)]
    for count in (1, 2, 11, 19):
        store.delete([each.block_id for each in stored[:count]])
        for number in range(count, 20):
            if (found := kit.read(store, stored[number])) != [number, "x" * number]:
                fail(
                    f"block {number} reads as {_shown(found)}, and it was not deleted",
                    f"delete of blocks 0 to {count - 1}",
                )


@check("BS-09", "must", change="save the highest number separately from the blocks")
def sequence_never_reset(kit: BlockStoreKit) -> None:
    """Block numbers are never reused: neither after deletions nor after a reopen.

    Purpose: two blocks with the same number are one block for the driver.
    Method: store three blocks, delete them, reopen the store; read the next number after each step.
    Condition: the next number never decreases.
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
            fail(
                f"after {what} the next number is {now}, and it was {before} before three blocks were stored",
                f"after {what}",
            )


@check("BS-10", "must", change="write a length or a footer last, and verify it before the first record")
def torn_tail_dropped(kit: BlockStoreKit) -> None:
    """A truncated file never reads as data, and damages no other block.

    Purpose: a power failure truncates files that were not synced.
    Method: truncate the file of the last block to 40 seeded lengths, each in a copy of the folder.
    Condition: reading the block raises, or returns all records; the earlier block is complete.
    Requires: a store that writes into its folder.
    """
    first, stored, name, size = _last_written(kit)
    for length in sorted({0, 1, size - 1, *(kit.rng.randrange(size) for _ in range(_DAMAGES))}):
        copy = kit.copy(f"torn-{length}")
        os.truncate(copy / name, length)
        reopened = kit.store(copy)
        where = f"{name} truncated from {size} to {length} bytes"
        if (found := kit.read(reopened, kit.moved(stored, copy))) != _SMALL and not isinstance(found, Exception):
            fail(f"the truncated block reads as {_shown(found)}, without an error", where)
        if (found := kit.read(reopened, kit.moved(first, copy))) != ["first"]:
            fail(f"the block stored before reads as {_shown(found)}", where)


@check(
    "BS-11", "must", requires="verified", change="save a checksum with the block, and verify it before the first record"
)
def corruption_detected(kit: BlockStoreKit) -> None:
    """A flipped bit causes an error, never wrong data.

    Purpose: a faulty disk must not change results.
    Method: flip one bit of the file of the last block at 40 seeded positions, each in a copy of the folder.
    Condition: reading the block raises, or returns the stored records.
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
            fail(
                f"the block with a flipped bit reads as {_shown(found)}, without an error",
                f"{name}: byte {position} of {size} xor {bit:#04x}",
            )


def _last_written(kit: BlockStoreKit) -> tuple[Any, Any, Path, int]:
    """Store two blocks; return both, and the file that the second store added or changed, with its size.

    Raises:
        NotApplicable: the second store changed no file of the folder.
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
