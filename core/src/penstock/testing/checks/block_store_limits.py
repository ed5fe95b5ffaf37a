"""Block store checks BS-12 to BS-22: sizes, concurrency, full disks, isolation, memory."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

from attrs import evolve

from penstock.storage.uri import is_remote
from penstock.testing.block_store import BlockStoreKit
from penstock.testing.check import NotApplicable, check, fail
from penstock.wire.messages import to_json

_WRITERS, _BLOCKS_EACH = 8, 12


@check("BS-12", "must", change="allocate by the block's size, and accept a table without rows")
def empty_and_huge(kit: BlockStoreKit) -> None:
    """An empty block, one record of 5 MB and a million records are stored like any other.

    Purpose: the size of a block follows the source, not the store.
    Method: store each, and read it back.
    Condition: equal records.
    Requires: nothing.
    """
    store = kit.store()
    sizes: dict[str, list[Any]] = {"no record": [], "one record of 5 MB": ["x" * 5_000_000], "10^6 ints": [7] * 10**6}
    for number, (what, records) in enumerate(sizes.items()):
        if kit.read(store, kit.put(store, number, records)) != records:
            fail("other records were read", f"a block of {what}")


@check("BS-13", "must", change="give each block a file of its own, or guard the shared one by a lock")
def many_writers(kit: BlockStoreKit) -> None:
    """Blocks that several threads store at once do not disturb each other.

    Purpose: every thread of a receiver stores, and several receivers share a store.
    Method: 8 threads store 12 blocks each; then all are read.
    Condition: no error; each block is whole.
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
            f"{len(stored)} of {_WRITERS * _BLOCKS_EACH} blocks stored; {'; '.join(errors[:3])}", f"{_WRITERS} threads"
        )
    for number, answer in stored.items():
        if kit.read(store, answer) != [f"{number}"] * (1 + number):
            fail(f"block {number} reads as other records", f"{_WRITERS} threads, {_BLOCKS_EACH} blocks each")


@check("BS-14", "must", change="do not touch the files of other blocks during a store")
def read_during_write(kit: BlockStoreKit) -> None:
    """A block can be read at every moment while another one is stored.

    Purpose: tasks read the last batch's blocks while receivers store the next.
    Method: read a block between every two writes of the store of another one.
    Condition: it is whole each time.
    Requires: a store that writes into its folder.
    """
    store = kit.store()
    earlier = kit.put(store, 1, ["first"])
    points = kit.crash_points(lambda: kit.put(store, 2, ["x" * 4000] * 500))
    for point in points:
        found = kit.read(kit.store(point.folder), kit.moved(earlier, point.folder))
        if found != ["first"]:
            fail(f"it reads as {found!r}", f"moment {point.number} of {len(points)} of the store of 2 MB")


@check("BS-15", "must", change="let the OSError through, and delete what was written of the block")
def full_disk_reported(kit: BlockStoreKit) -> None:
    """A full disk is an error, leaves nothing behind and damages nothing.

    Purpose: the receiver waits for space and tries again; an answer would lose the block.
    Method: store a block of 4 MB in a process whose files cannot grow above 64 KiB; then one without that limit.
    Condition: an error; no file of the block remains; the earlier block is whole; the later store succeeds.
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
        fail("the store was acknowledged", f"a block of 4 MB, no file above 64 KiB; written: {left}")
    if left:
        fail(f"after {outcome!r} these files remain: {left}", "a block of 4 MB, no file above 64 KiB")
    if (found := kit.read(store, earlier)) != ["first"]:
        fail(f"after {outcome!r} the earlier block reads as {found!r}", "a block of 4 MB, no file above 64 KiB")
    if kit.read(store, kit.put(store, 2, records)) != records:
        fail("a later store reads as other records", "the same block, with space")


@check("BS-16", "should", requires="located", change="answer with the absolute path of the file, or its URI")
def location_hints_valid(kit: BlockStoreKit) -> None:
    """The answer's path is where the block is.

    Purpose: tasks read the file directly on the host that has it, and are preferred there.
    Method: store a block, look at its path.
    Condition: an absolute path of an existing file with the answer's size, or a URI.
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
        fail(f"the file has {path.stat().st_size} bytes, the answer says {stored.num_bytes}", "one block")


@check("BS-17", "should", change="keep no reference to a block after store has returned")
def memory_bounded(kit: BlockStoreKit) -> None:
    """A store holds no block in memory once it is stored.

    Purpose: a receiver stores for months.
    Method: store 50 blocks, keeping weak references only.
    Condition: at most 3 blocks are alive.
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
        fail(f"{alive} of 50 blocks are in memory", "50 blocks")


@check("BS-18", "must", change="close files and end threads in close()")
def close_releases(kit: BlockStoreKit) -> None:
    """A closed store leaves no thread, descriptor or temporary file behind.

    Purpose: executors run one receiver after another.
    Method: open, store, read, delete where possible, close.
    Condition: threads, descriptors and temporary files are as before.
    Requires: nothing.
    """
    store = kit.store()
    stored = kit.put(store, 1, ["a"])
    kit.read(store, stored)
    del store
    kit.close()
    gc.collect()
    if leaks := kit.leak_meter.leaks(kit.deadline_s(2)):
        fail("; ".join(leaks), "one block stored and read")


@check("BS-19", "must", change="raise before anything is written, or answer with the block's own metadata")
def unserialisable_refused_cleanly(kit: BlockStoreKit) -> None:
    """Metadata that is no JSON is refused, or passed on unchanged; it is never replaced.

    Purpose: the supervisor refuses such an answer and deletes the block; changed metadata would pass.
    Method: store a block with an object and with a set as metadata.
    Condition: an error and no file; or an answer whose metadata is the object itself.
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
                fail(f"after {type(error).__name__} the files are {left}, they were {before}", f"metadata {value!r}")
            continue
        if answer is None or answer.metadata is None or answer.metadata.get("value") is not value:
            fail(f"the answer's metadata is {answer and answer.metadata!r}", f"metadata {value!r}")
    try:
        to_json(kit.put(store, 3, ["a"]))
    except Exception as error:
        fail(
            f"a sound answer cannot be sent to the driver: {type(error).__name__}: {error}", "a block without metadata"
        )


@check("BS-20", "must", change="derive every path from the folder, the run or the application")
def applications_isolated(kit: BlockStoreKit) -> None:
    """Two applications with the same block ids do not see each other's blocks.

    Purpose: block ids are unique within one application only.
    Method: store one id with different records in two stores with different folders; delete it in one.
    Condition: each reads its own; the deletion does not touch the other's.
    Requires: nothing.
    """
    one, two = kit.store(kit.folder / "one"), kit.store(kit.folder / "two")
    first, second = kit.put(one, 1, ["one"]), kit.put(two, 1, ["two"])
    if (found := (kit.read(one, first), kit.read(two, second))) != (["one"], ["two"]):
        fail(f"they read {found}", "input-0-0-1 in two stores")
    try:
        one.delete([first.block_id])
    except NotApplicable:
        return
    if (left := kit.read(two, second)) != ["two"]:
        fail(f"after the deletion in the first store the second reads {left!r}", "input-0-0-1 in two stores")


@check("BS-21", "should", change="keep the reader of the earlier format")
def older_format_readable(kit: BlockStoreKit) -> None:
    """A block that an earlier version of the store has written can be read.

    Purpose: an upgrade finds unprocessed blocks.
    Method: read the block that ``BlockStore.older`` gives.
    Condition: its records.
    Requires: older.
    """
    store = kit.store()
    stored, records = store.older()
    if (found := kit.read(store, stored)) != records:
        fail(f"it reads as {found!r}, expected {records!r}", stored.path)


@check("BS-22", "must", change="include both bounds, and return an empty list for an empty range")
def range_replay_bounds(kit: BlockStoreKit) -> None:
    """A replay of a range has exactly its blocks, both bounds included, and no more than asked for.

    Purpose: a recovery replays from the last checkpoint to the last acknowledged block.
    Method: store blocks 1 to 6 and ask for ranges inside, across, outside and empty, with and without a limit.
    Condition: the expected ids, in order.
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
            fail(f"replay gave {found}, expected {expected}", f"replay{asked} of blocks 1 to 6")
