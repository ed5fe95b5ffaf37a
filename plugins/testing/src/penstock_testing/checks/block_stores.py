"""Block store checks: each block is stored once, as it is, and described right, and errors are reported."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

from penstock import StoredBlock
from penstock.spi import is_remote
from penstock_testing.block_store_subject import BlockStoreSubject
from penstock_testing.check import check, fail

_WRITERS = 8
_BLOCKS_EACH = 12
_BLOCKS = 30
_RECORDS: list[list[Any]] = [
    ["", "text", "\x00", "😀"],
    [b"", b"\x00\xff"],
    [-1, 0, 2**63 - 1],
    [0.5, float("inf"), -0.0],
    [True, False],
    [None, 1, "mixed", (1, [2]), {"k": {3}}, 2**80],
]


class BlockStoreChecks:
    """The checks of this module, as test methods."""

    @check("BS-01", "must", change="return block.stored(path, num_bytes, checksum), and write the block's own table")
    def test_BS_01_blocks_are_stored_as_they_are(self, subject: BlockStoreSubject) -> None:
        """Every block is stored, read back as it was, in value and type, and described by the returned StoredBlock.

        Purpose: a block store must not lose, repeat, exchange or change data.
        Condition: each store returns a StoredBlock with the block's id, stream id, number of records and metadata; the
            records are equal.
        """
        store = subject.open()
        blocks = [[*_RECORDS[number % len(_RECORDS)], *[number] * (number % 3)] for number in range(_BLOCKS)]
        metadata = [{"offset": number, "name": "é"} if number % 2 else None for number in range(_BLOCKS)]
        stored = [
            subject.put(store, subject.block(number, values, metadata[number])) for number, values in enumerate(blocks)
        ]
        for answer, values in reversed(list(zip(stored, blocks, strict=True))):
            subject.expect(answer, values, f"{_BLOCKS} blocks")

    @check("BS-02", "must", change="write a block in place of one with the same id")
    def test_BS_02_retried_block_replaces_the_first(self, subject: BlockStoreSubject) -> None:
        """A block that is stored again under its id replaces the first one.

        Purpose: after an error of any part, the receiver stores the block again.
        Condition: the second store succeeds, and its block reads as stored last.
        """
        store = subject.open()
        subject.put(store, subject.block(1, ["first"]))
        values = ["second", "block"]
        subject.expect(subject.put(store, subject.block(1, values)), values, "two blocks with one id")

    @check("BS-03", "must", change="let errors of storing pass, and store the next block as if there had been none")
    def test_BS_03_errors_are_reported(self, subject: BlockStoreSubject) -> None:
        """A store that fails raises; the next one succeeds.

        Purpose: after an error the receiver retries; a wrong acknowledgement would lose the block.
        Condition: the first store raises, or the block reads as stored; the second one succeeds.
        """
        store, values = subject.open(), ["x" * 100] * 40_000
        earlier = subject.put(store, subject.block(1, ["first"]))
        store.error = OSError(28, "No space left on device")
        smallest = "a block of 4 MB, no file above 64 KiB"
        answer: StoredBlock | Exception | None
        try:
            with subject.full_disk(64 * 1024):
                answer = store.call(subject.block(2, values))
        except Exception as error:
            answer = error
        store.error = None
        if not isinstance(answer, Exception) and (answer is None or subject.read(answer) != values):
            fail(f"the store could not write the block, and returned {str(answer)[:200]} instead of raising", smallest)
        subject.expect(earlier, ["first"], smallest)
        subject.expect(subject.put(store, subject.block(2, values)), values, "the same block, with enough space")

    @check("BS-04", "must", change="give each block a file of its own, or guard what threads share by a lock")
    def test_BS_04_many_writers(self, subject: BlockStoreSubject) -> None:
        """Several threads can store blocks at the same time.

        Purpose: a receiver may store on several threads, and several receivers share a store.
        Condition: no store raises, and each block is complete.
        """
        store, start = subject.open(), threading.Barrier(_WRITERS)
        # An error that also occurs on one thread does not come from concurrency.
        subject.put(store, subject.block(_WRITERS * 100, ["alone"]))
        stored: dict[int, Any] = {}
        errors: list[str] = []

        def write(writer: int) -> None:
            start.wait(subject.deadline_s(5))
            for index in range(_BLOCKS_EACH):
                number = writer * 100 + index
                try:
                    stored[number] = subject.put(store, subject.block(number, [f"{number}"] * (1 + number)))
                except Exception as error:
                    errors.append(f"block {number}: {error}")

        threads = [threading.Thread(target=write, args=[writer], daemon=True) for writer in range(_WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(subject.deadline_s(10))
        smallest = f"{_WRITERS} threads, {_BLOCKS_EACH} blocks each"
        if errors or len(stored) != _WRITERS * _BLOCKS_EACH:
            fail(
                f"{len(stored)} of {_WRITERS * _BLOCKS_EACH} blocks are stored; {'; '.join(errors[:3])}",
                smallest,
            )
        for number, answer in stored.items():
            subject.expect(answer, [f"{number}"] * (1 + number), smallest)

    @check("BS-05", "must", change="allocate by the block's size, and accept a table without rows")
    def test_BS_05_empty_and_huge(self, subject: BlockStoreSubject) -> None:
        """The store accepts an empty block, a record of 5 MB and a million records.

        Purpose: the size of a block depends on the source.
        Condition: the records are equal.
        """
        store = subject.open()
        sizes: dict[str, list[Any]] = {
            "no record": [],
            "one record of 5 MB": ["x" * 5_000_000],
            "10^6 ints": [7] * 10**6,
        }
        for number, (what, values) in enumerate(sizes.items()):
            subject.expect(subject.put(store, subject.block(number, values)), values, f"a block of {what}")

    @check("BS-06", "should", change="answer with the absolute path of the file, or its URI")
    def test_BS_06_location_is_that_of_the_file(self, subject: BlockStoreSubject) -> None:
        """The path and the size in the returned StoredBlock are those of the block's file.

        Purpose: tasks read the file directly, wherever they run, and partitions are sized by bytes.
        Condition: the path is a URI, or the absolute path of an existing file with the returned size.
        """
        stored = subject.put(subject.open(), subject.block(1, ["a"]))
        if is_remote(stored.path):
            return
        path = Path(stored.path)
        if not path.is_absolute() or not path.is_file():
            fail(f"no file is at {stored.path!r}", "one block")
        if (size := path.stat().st_size) != stored.num_bytes:
            fail(f"the file has {size} bytes, and store returned num_bytes={stored.num_bytes}", "one block")

    @check("BS-07", "should", change="hold no reference to a block after store has returned")
    def test_BS_07_memory_is_bounded(self, subject: BlockStoreSubject) -> None:
        """The store holds no stored block in memory.

        Purpose: a receiver stores blocks for months.
        Condition: at most 3 tables are alive.
        """
        store = subject.open()
        tables = []
        for number in range(50):
            block = subject.block(number, [f"{number}" * 100])
            tables.append(weakref.ref(block.table))
            store.call(block)
            del block
        gc.collect()
        alive = sum(table() is not None for table in tables)
        if alive > 3:
            fail(f"after store has returned, {alive} of 50 blocks are in memory", "50 blocks")

    @check("BS-08", "must", change="close files and end threads in close()")
    def test_BS_08_nothing_left_behind(self, subject: BlockStoreSubject) -> None:
        """A closed store has released its threads, descriptors and temporary files, and changed nothing else.

        Purpose: an executor runs one receiver after another.
        Condition: threads, descriptors, temporary files and the global state are the same as before, and nothing was
            printed.
        """
        store = subject.open()
        subject.read(subject.put(store, subject.block(1, ["a"])))
        del store
        subject.close()
        gc.collect()
        if leaks := subject.leaks(2):
            fail("; ".join(leaks), "one block stored and read")
