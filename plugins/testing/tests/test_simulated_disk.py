"""The simulated disk: what survives a power failure, and what a killed process has written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.storage.directory import Durability
from penstock_testing.simulation.scheduler import Scheduler
from penstock_testing.simulation.simulated_disk import SimulatedDirectory, SimulatedDisk

HOME = "simulated:/home"


def on_disk(work: Callable[[SimulatedDirectory, SimulatedDisk], object], seed: int = 0) -> SimulatedDisk:
    scheduler = Scheduler(seed)
    disk = SimulatedDisk(scheduler)
    scheduler.run(lambda: work(SimulatedDirectory(disk, HOME), disk))
    return disk


def survivors(work: Callable[[SimulatedDirectory, SimulatedDisk], object], name: str) -> set[bytes | None]:
    """What a power failure after some work may leave of a file."""

    def work_and_fail(directory: SimulatedDirectory, disk: SimulatedDisk) -> None:
        work(directory, disk)
        disk.fail_power()

    return {on_disk(work_and_fail, seed).files.get(f"{HOME}/{name}") for seed in range(60)}


def test_directory_lists_reads_moves_and_deletes() -> None:
    def work(directory: SimulatedDirectory, _disk: SimulatedDisk) -> None:
        directory.write("b", b"2")
        directory.write("a", b"1")
        directory.child("sub").write("c", b"3")
        assert directory.names() == ["a", "b"]
        assert directory.read("a") == b"1"
        assert directory.move("a", "sub")
        assert not directory.move("a", "sub")
        assert directory.child("sub").names() == ["a", "c"]
        assert directory.delete("b")
        assert not directory.delete("b")
        assert directory.names() == []
        with pytest.raises(FileNotFoundError):
            directory.read("b")
        appender = directory.append("log")
        appender.close()
        with pytest.raises(FileExistsError):
            directory.append("log")

    on_disk(work)


def test_synced_file_survives_a_power_failure() -> None:
    assert survivors(lambda directory, _disk: directory.write("a", b"whole", sync=True), "a") == {b"whole"}


def test_unsynced_file_survives_in_part() -> None:
    data = bytes(range(1, 201))
    found = survivors(lambda directory, _disk: directory.write("a", data), "a")
    assert {None, data} <= found
    assert any(part is not None and data.startswith(part) and part != data for part in found)
    assert any(part is not None and len(part) == len(data) and part != data for part in found)


def test_unsynced_replacement_leaves_the_old_file_or_the_new_one() -> None:
    def work(directory: SimulatedDirectory, _disk: SimulatedDisk) -> None:
        directory.write("a", b"old", sync=True)
        directory.write("a", b"new")

    assert {b"old", b"new"} <= survivors(work, "a")
    assert None not in survivors(work, "a")


def test_unsynced_deletion_may_be_undone() -> None:
    def work(directory: SimulatedDirectory, _disk: SimulatedDisk) -> None:
        directory.write("a", b"old", sync=True)
        directory.delete("a")

    assert survivors(work, "a") == {b"old", None}


def test_what_was_committed_survives_as_its_durability_says() -> None:
    def append(durability: Durability) -> Callable[[SimulatedDirectory, SimulatedDisk], None]:
        def work(directory: SimulatedDirectory, _disk: SimulatedDisk) -> None:
            appender = directory.append("log")
            appender.write(b"first ")
            appender.commit(Durability.FSYNC)
            appender.write(b"second")
            appender.commit(durability)

        return work

    assert survivors(append(Durability.FSYNC), "log") == {b"first second"}
    flushed = survivors(append(Durability.FLUSH), "log")
    assert {b"first ", b"first second"} <= flushed
    assert all(part is not None and part.startswith(b"first ") for part in flushed)
    assert survivors(append(Durability.NONE), "log") == {b"first "}


def test_killed_process_loses_what_it_has_not_committed() -> None:
    def work(directory: SimulatedDirectory, disk: SimulatedDisk) -> None:
        scheduler = disk.scheduler
        process = scheduler.process("writer")

        def write() -> None:
            appender = directory.append("log")
            appender.write(b"committed")
            appender.commit()
            appender.write(b" and more")
            try:
                scheduler.elapse(60.0)
            finally:
                appender.close()

        process.spawn("main", write)
        scheduler.elapse(1.0)
        scheduler.kill(process)

    assert on_disk(work).files[f"{HOME}/log"] == b"committed"


def test_sync_of_a_directory_syncs_all_files_below() -> None:
    def work(directory: SimulatedDirectory, _disk: SimulatedDisk) -> None:
        directory.write("a", b"1")
        directory.child("sub").write("b", b"2")
        assert directory.sync() == {f"{HOME}/a", f"{HOME}/sub/b"}

    assert survivors(work, "a") == {b"1"}
    assert survivors(work, "sub/b") == {b"2"}


def test_failing_write_leaves_a_part_of_its_bytes() -> None:
    def work(directory: SimulatedDirectory, disk: SimulatedDisk) -> None:
        appender = directory.append("log")

        def fail(operation: str, _path: str) -> None:
            if operation == "write":
                raise OSError("full")

        disk.fault = fail
        with pytest.raises(OSError, match="full"):
            appender.write(b"abcdef")
        disk.fault = lambda _operation, _path: None
        appender.close()

    contents = {on_disk(work, seed).files[f"{HOME}/log"] for seed in range(20)}
    assert len(contents) > 2
    assert all(b"abcdef".startswith(content) for content in contents)
