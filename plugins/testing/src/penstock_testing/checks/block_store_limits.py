"""Block store checks BS-12 to BS-22: sizes, concurrency, full disks, isolation, memory."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

from attrs import evolve

from penstock.storage.uri import is_remote
from penstock.wire.json_codec import to_json
from penstock_testing.block_store import BlockStoreKit
from penstock_testing.check import NotApplicable, check, fail

_WRITERS, _BLOCKS_EACH = 8, 12


@check("BS-12", "must", change="allocate by the block's size, and accept a table without rows")
def empty_and_huge(kit: BlockStoreKit) -> None:
    """The store accepts an empty block, a record of 5 MB and a million records.

    Purpose: the size of a block depends on the source.
    Method: store each of these blocks, and read it back.
    Condition: the records are equal.
    Requires: nothing.
    """
    store = kit.store()
    sizes: dict[str, list[Any]] = {"no record": [], "one record of 5 MB": ["x" * 5_000_000], "10^6 ints": [7] * 10**6}
    for number, (what, records) in enumerate(sizes.items()):
        if kit.read(store, kit.put(store, number, records)) != records:
            fail(f"a block of {what} reads as other records", f"a block of {what}")


@check("BS-13", "must", change="give each block a file of its own, or guard the shared one by a lock")
def many_writers(kit: BlockStoreKit) -> None:
    """Several threads can store blocks at the same time.

    Purpose: a receiver may store on several threads, and several receivers share a store.
    Method: store 12 blocks on each of 8 threads; then read all blocks.
    Condition: no store raises, and each block is complete.
    Requires: nothing.
    """
    store, start = kit.store(), threading.Barrier(_WRITERS)
    stored: dict[int, Any] = {}
    errors: list[str] = []

    def write(writer: int) -> None:
        start.wait(kit.deadline_s(5))
        for index in range(_BLOCKS_EACH):
            number = writer * 100 + index
            try:
                stored[number] = store.store(kit.block(number, [f"{number}"] * (1 + number)))
            except Exception as error:
                errors.append(f"block {number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=write, args=[each], daemon=True) for each in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(kit.deadline_s(10))
    if errors or len(stored) != _WRITERS * _BLOCKS_EACH:
        fail(
            f"{_WRITERS} threads stored {len(stored)} of {_WRITERS * _BLOCKS_EACH} blocks; {'; '.join(errors[:3])}",
            f"{_WRITERS} threads",
        )
    for number, answer in stored.items():
        if kit.read(store, answer) != [f"{number}"] * (1 + number):
            fail(f"block {number} reads as other records", f"{_WRITERS} threads, {_BLOCKS_EACH} blocks each")


@check("BS-14", "must", change="do not touch the files of other blocks during a store")
def read_during_write(kit: BlockStoreKit) -> None:
    """A block can be read at every moment while another one is stored.

    Purpose: tasks read the last batch's blocks while receivers store the next ones.
    Method: read a block between every two writes of another block's store.
    Condition: the block is complete each time.
    Requires: a store that writes into its folder.
    """
    store = kit.store()
    earlier = kit.put(store, 1, ["first"])
    points = kit.crash_points(lambda: kit.put(store, 2, ["x" * 4000] * 500))
    for point in points:
        found = kit.read(kit.store(point.folder), kit.moved(earlier, point.folder))
        if found != ["first"]:
            fail(
                f"during another block's store the block reads as {found!r}",
                f"moment {point.number} of {len(points)} of the store of 2 MB",
            )


@check("BS-15", "must", change="delete the partly written file, and raise the OSError")
def full_disk_reported(kit: BlockStoreKit) -> None:
    """On a full disk a store raises, removes its partial file, and damages no other block.

    Purpose: after an error the receiver waits for space and retries; a wrong acknowledgement would lose the block.
    Method: store a block of 4 MB in a process whose files cannot grow above 64 KiB; then store it without that limit.
    Condition: the first store raises and leaves no file; the earlier block is complete; the later store succeeds.
    Requires: a store that writes into its folder.
    """
    store, records = kit.store(), ["x" * 100] * 40_000
    earlier = kit.put(store, 1, ["first"])
    before = kit.files()
    outcome = kit.on_full_disk(lambda: store.store(kit.block(2, records)), 64 * 1024)
    left = {name: size for name, size in kit.files().items() if before.get(name) != size}
    if outcome == "stored":
        if not left:
            raise NotApplicable("the store writes nothing into the folder that make(folder) got")
        fail(
            "the store acknowledged a block that did not fit on the disk",
            f"a block of 4 MB, no file above 64 KiB; written: {left}",
        )
    if left:
        fail(f"after {outcome!r} the store left these files: {left}", "a block of 4 MB, no file above 64 KiB")
    if (found := kit.read(store, earlier)) != ["first"]:
        fail(f"after {outcome!r} the earlier block reads as {found!r}", "a block of 4 MB, no file above 64 KiB")
    if kit.read(store, kit.put(store, 2, records)) != records:
        fail("the block reads as other records after a retry with enough space", "the same block, with space")


@check("BS-16", "should", requires="located", change="answer with the absolute path of the file, or its URI")
def location_hints_valid(kit: BlockStoreKit) -> None:
    """The path of the returned StoredBlock is that of the block's file.

    Purpose: tasks run preferably on the host of the block, and read its file directly.
    Method: store a block, and look at the returned path.
    Condition: the path is a URI, or the absolute path of an existing file with the returned size.
    Requires: Capabilities.located.
    """
    store = kit.store()
    stored = kit.put(store, 1, ["a"])
    if is_remote(stored.path):
        return
    path = Path(stored.path)
    if not path.is_absolute() or not path.is_file():
        fail(f"no file is at {stored.path!r}", "one block")
    if path.stat().st_size != stored.num_bytes:
        fail(f"the file has {path.stat().st_size} bytes, and store returned num_bytes={stored.num_bytes}", "one block")


@check("BS-17", "should", change="hold no reference to a block after store has returned")
def memory_bounded(kit: BlockStoreKit) -> None:
    """The store holds no stored block in memory.

    Purpose: a receiver stores blocks for months.
    Method: store 50 blocks, and hold weak references to their tables only.
    Condition: at most 3 tables are alive.
    Requires: nothing.
    """
    store = kit.store()
    tables = []
    for number in range(50):
        block = kit.block(number, [f"{number}" * 100])
        tables.append(weakref.ref(block.table))
        store.store(block)
        del block
    gc.collect()
    alive = sum(table() is not None for table in tables)
    if alive > 3:
        fail(f"after store has returned, {alive} of 50 blocks are in memory", "50 blocks")


@check("BS-18", "must", change="close files and end threads in close()")
def close_releases(kit: BlockStoreKit) -> None:
    """A closed store has released its threads, descriptors and temporary files, and changed nothing else.

    Purpose: an executor runs one receiver after another.
    Method: open a store, store a block, read it, close the store.
    Condition: threads, descriptors, temporary files and the global state are the same as before, and nothing was
        printed.
    Requires: nothing.
    """
    store = kit.store()
    stored = kit.put(store, 1, ["a"])
    kit.read(store, stored)
    del store
    kit.close()
    gc.collect()
    if leaks := kit.leaks(2):
        fail("; ".join(leaks), "one block stored and read")


@check("BS-19", "must", change="raise before anything is written, or return the block's own metadata")
def unserialisable_refused_cleanly(kit: BlockStoreKit) -> None:
    """The store refuses metadata that JSON cannot hold, or returns it unchanged; it never replaces it.

    Purpose: the supervisor refuses unchanged metadata and deletes the block; it would accept replaced metadata.
    Method: store a block with an object and with a set as metadata.
    Condition: the store raises and leaves no file, or returns the same object as metadata.
    Requires: nothing.
    """
    store = kit.store()
    kit.put(store, 1, ["first"])
    before = kit.files()
    for value in (object(), {1, 2}):
        try:
            answer = store.store(evolve(kit.block(2, ["a"]), metadata={"value": value}))
        except Exception as error:
            if (left := kit.files()) != before:
                fail(
                    f"after {type(error).__name__} the store's files are {left}, and they were {before}",
                    f"metadata {value!r}",
                )
            continue
        if answer is None or answer.metadata is None or answer.metadata.get("value") is not value:
            fail(
                f"store returned the metadata {answer and answer.metadata!r}, which differs from the block's",
                f"metadata {value!r}",
            )
    try:
        to_json(kit.put(store, 3, ["a"]))
    except Exception as error:
        fail(
            f"a StoredBlock without metadata cannot be sent to the driver: {type(error).__name__}: {error}",
            "a block without metadata",
        )


@check("BS-20", "must", change="derive every path from the folder or the application id")
def applications_isolated(kit: BlockStoreKit) -> None:
    """Two applications with the same block ids do not share blocks.

    Purpose: block ids are unique within one application only.
    Method: store different records with the same block id in two stores with different folders; delete one block.
    Condition: each store reads its own block; the deletion does not affect the other store.
    Requires: nothing.
    """
    one, two = kit.store(kit.folder / "one"), kit.store(kit.folder / "two")
    first, second = kit.put(one, 1, ["one"]), kit.put(two, 1, ["two"])
    if (found := (kit.read(one, first), kit.read(two, second))) != (["one"], ["two"]):
        fail(f"two stores of the same block id read {found}, not (['one'], ['two'])", "input-0-0-1 in two stores")
    try:
        one.delete([first.block_id])
    except NotApplicable:
        return
    if (left := kit.read(two, second)) != ["two"]:
        fail(f"after a deletion in the first store the second one reads {left!r}", "input-0-0-1 in two stores")


@check("BS-21", "should", change="support reading the earlier format")
def older_format_readable(kit: BlockStoreKit) -> None:
    """The store reads a block that an earlier version of it wrote.

    Purpose: there may be unprocessed blocks at an upgrade.
    Method: read the block that ``BlockStore.older`` returns.
    Condition: the records equal those that ``BlockStore.older`` returns.
    Requires: older.
    """
    store = kit.store()
    stored, records = store.older()
    if (found := kit.read(store, stored)) != records:
        fail(f"the block of an earlier version reads as {found!r}, expected {records!r}", stored.path)


@check("BS-22", "must", change="include both bounds, and return an empty list for an empty range")
def range_replay_bounds(kit: BlockStoreKit) -> None:
    """A replay of a range returns its blocks, both bounds included, up to the limit.

    Purpose: a recovery replays the blocks from the last checkpoint to the last acknowledged block.
    Method: store blocks 1 to 6; replay ranges inside of them, across their bounds, outside and empty, with and without
        a limit.
    Condition: each replay returns the ids of its blocks, in order.
    Requires: replay.
    """
    store = kit.store()
    for number in range(1, 7):
        kit.put(store, number, [number])
    ranges: list[tuple[tuple[int, int, int | None], range]] = [
        ((1, 6, None), range(1, 7)),
        ((3, 4, None), range(3, 5)),
        ((3, 3, None), range(3, 4)),
        ((0, 100, None), range(1, 7)),
        ((4, 3, None), range(0)),
        ((7, 9, None), range(0)),
        ((2, 6, 2), range(2, 4)),
        ((2, 6, 0), range(0)),
    ]
    for asked, numbers in ranges:
        found, expected = store.replay(*asked), [f"input-0-0-{number}" for number in numbers]
        if found != expected:
            fail(f"replay returned {found}, expected {expected}", f"replay{asked} of blocks 1 to 6")
