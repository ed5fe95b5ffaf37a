"""``Claim``: of several drivers one owns a directory, and what the others write is acknowledged to nobody."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyarrow import fs
from tests.helpers import raiser
from tests.helpers.odd_names import ODD_NAMES
from tests.helpers.simulated_disk import synced_path

from penstock.conf import Settings
from penstock.errors import CheckpointError, ClaimLostError, WriteAheadLogError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.clock import SystemClock
from penstock.storage.claim import (
    CLAIMS,
    Claim,
    ClaimedDirectory,
    FileNumber,
    Owner,
    claim_name,
    claims_among,
    newer_claim,
    number_of,
)
from penstock.storage.directory import Directory, LocalDirectory, RemoteDirectory

Make = Callable[[Path], Directory]


def local(path: Path) -> Directory:
    return LocalDirectory(path)


def behind_arrow(path: Path) -> Directory:
    return RemoteDirectory(fs.LocalFileSystem(), str(path), f"there:{path}")


@pytest.fixture(params=[local, behind_arrow], ids=["local", "arrow"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    make: Make = request.param
    return make(tmp_path / "checkpoint")


def owner(pid: int) -> Owner:
    return Owner("host", pid, "counts", f"app-{pid}", 1_000)


def claims_in(directory: Directory) -> list[str]:
    return claims_among(directory.child(CLAIMS).names())


def named(number: int, token: int) -> str:
    return f"claim-{number:010d}-{token:016x}"


names = st.builds(named, st.integers(1, 5), st.integers(0, 2**64 - 1))


@given(names, st.sets(names))
def test_at_most_one_of_the_claims_in_a_directory_is_not_lost(own: str, others: set[str]) -> None:
    present = {own, *others}
    assert [name for name in present if newer_claim(name, present) is None] == [max(present)]


@given(names)
def test_emptied_directory_takes_no_claim_away(own: str) -> None:
    assert newer_claim(own, ()) is None


def test_names_of_claims_are_in_the_order_of_their_numbers() -> None:
    claims = [claim_name(number) for number in (1, 2, 10, 1_000_000)]
    assert claims_among([*reversed(claims), "claim-1", "notes", ".lock"]) == claims
    assert [number_of(claim) for claim in claims] == [1, 2, 10, 1_000_000]


def test_names_of_files_are_in_the_order_of_claims_then_of_numbers() -> None:
    numbers = [FileNumber(0, 8), FileNumber(0, 9), FileNumber(1, 2), FileNumber(2, 1), FileNumber(1_000_000, 0)]
    files = [f"segment-{number}" for number in numbers]
    assert files[:3] == ["segment-0000000008", "segment-0000000009", "segment-000001-0000000002"]
    assert FileNumber.among("segment", [*reversed(files), "segment-1", "checkpoint-0000000008"]) == numbers


def test_newer_claim_takes_the_directory_and_is_named(directory: Directory) -> None:
    first = Claim.take(directory, owner(1))
    first.check()
    second = Claim.take(directory, owner(2))
    assert (first.number, second.number) == (1, 2)
    reported: list[ClaimLostError] = []
    first.on_lost = reported.append
    for _ in range(2):
        with pytest.raises(
            ClaimLostError,
            match=r"taken over by another driver: 'counts' \(app-2\), process 2 on host host, since 1970",
        ):
            first.check()
    assert reported == [first.lost]
    second.check()
    # Earlier claims are deleted.
    assert [number_of(claim) for claim in claims_in(directory)] == [2]


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_name_of_the_new_owner_makes_no_unreadable_message(name: str, tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    first = Claim.take(directory, owner(1))
    Claim.take(directory, Owner("host", 2, name, "app-2", 1_000))
    with pytest.raises(ClaimLostError, match="process 2 on host host") as error:
        first.check()
    assert len(str(error.value)) < 700
    assert str(error.value).isprintable()


def test_number_is_higher_than_those_in_the_names_of_files(directory: Directory) -> None:
    assert Claim.take(directory, owner(1), used=41).number == 42


def test_driver_that_finds_another_new_claim_withdraws_and_takes_a_higher_number(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = named(1, 2**64 - 1)
    files = directory.child(CLAIMS)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)

    write = type(files).write

    def beside_a_rival(folder: Directory, name: str, data: bytes, *, sync: bool = False) -> None:
        if not pauses:
            write(files, rival, b"")
        write(folder, name, data, sync=sync)

    monkeypatch.setattr(type(files), "write", beside_a_rival)
    monkeypatch.setattr(time, "sleep", pause)
    claim = Claim.take(directory, owner(2))
    assert len(pauses) == 1
    assert 0 <= pauses[0] <= 0.5
    assert claim.number == 2
    assert [number_of(present) for present in claims_in(directory)] == [2]


def test_driver_that_finds_a_new_claim_each_time_withdraws_and_gives_up(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = type(directory.child(CLAIMS))
    write = folder.write

    def beside_a_rival(files: Directory, name: str, data: bytes, *, sync: bool = False) -> None:
        write(files, named(number_of(name), 2**64 - 1), b"")
        write(files, name, data, sync=sync)

    monkeypatch.setattr(folder, "write", beside_a_rival)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    with pytest.raises(CheckpointError, match="other drivers start on the checkpoint directory"):
        Claim.take(directory, owner(2))
    assert claims_in(directory) == [named(number, 2**64 - 1) for number in range(1, 11)]


def test_claim_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(synced_path(descriptor).name))
    Claim.take(LocalDirectory(tmp_path), owner(1))
    # The file is synced before it gets its name.
    assert any(name.startswith(".claim-0000000001-") for name in synced)
    assert synced[-1] == CLAIMS


@pytest.mark.parametrize(
    ("content", "named_owner"),
    [
        (b"", "unknown, because claim-0000000002-0000000000000000 cannot be read"),
        (b'{"pid": "two"}', "unknown, because claim-0000000002-0000000000000000 cannot be read"),
        # A newer version may write more.
        (
            b'{"host": "h", "pid": 2, "application": "a", "application_id": "i", "started_ms": 0, "user": "u"}',
            "'a' (i), process 2 on host h, since 1970-01-01T00:00:00.000Z",
        ),
    ],
)
def test_new_owner_is_named_if_its_claim_can_be_read(directory: Directory, content: bytes, named_owner: str) -> None:
    claim = Claim.take(directory, owner(1))
    directory.child(CLAIMS).write(named(2, 0), content)
    with pytest.raises(ClaimLostError, match=re.escape(f"another driver: {named_owner}")):
        claim.check()


def test_drivers_that_start_at_the_same_moment_have_different_numbers(directory: Directory) -> None:
    claims: list[Claim] = []
    threads = [
        threading.Thread(target=lambda pid=pid: claims.append(Claim.take(directory, owner(pid)))) for pid in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    numbers = sorted(claim.number for claim in claims)
    assert len(set(numbers)) == 5
    newest = max(claims, key=lambda claim: claim.number)
    newest.check()
    for claim in claims:
        if claim is not newest:
            with pytest.raises(ClaimLostError):
                claim.check()


def test_owner_without_a_claim_deletes_replaces_and_moves_nothing(directory: Directory) -> None:
    files = ClaimedDirectory(directory, Claim.take(directory, owner(1)))
    files.write("file", b"first")
    Claim.take(directory, owner(2))
    for change in (
        lambda: files.delete("file"),
        lambda: files.move("file", "aside"),
        lambda: files.child("deeper").delete("file"),
        files.delete_partial,
    ):
        directory.write(".file.01234567.partial", b"")
        with pytest.raises(ClaimLostError):
            change()
    with pytest.raises(ClaimLostError):
        files.write("another", b"late")
    assert directory.read("file") == b"first"
    assert ".file.01234567.partial" in directory.all_names()


def test_check_of_a_local_write_comes_before_the_file_is_replaced(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    files = ClaimedDirectory(directory, Claim.take(directory, owner(1)))
    files.write("file", b"first")

    def write_slowly() -> None:
        with files.create("file") as file:
            file.write(b"second")
            Claim.take(directory, owner(2))

    with pytest.raises(ClaimLostError):
        write_slowly()
    assert directory.read("file") == b"first"


class Recording:
    """The state of a log: all events."""

    def __init__(self) -> None:
        self.applied: list[int] = []

    def apply(self, event: dict[str, int]) -> None:
        self.applied.append(event["n"])

    def events(self) -> list[dict[str, int]]:
        return [{"n": number} for number in self.applied]


class Driver:
    """A driver with a write-ahead log of numbers in a directory that it has claimed."""

    def __init__(self, directory: Directory, pid: int) -> None:
        self.claim = Claim.take(directory, owner(pid))
        self.state = Recording()
        files = ClaimedDirectory(directory, self.claim).child("log")
        self.log = WriteAheadLog(files, "run", Settings.parse({}), SystemClock())
        self.log.recover(self.state)
        self.recovered = list(self.state.applied)
        self.log.start()


def test_event_of_a_driver_without_a_claim_is_acknowledged_to_nobody(directory: Directory) -> None:
    first = Driver(directory, 1)
    first.log.append({"n": 1})
    second = Driver(directory, 2)
    second.log.append({"n": 2})
    with pytest.raises(ClaimLostError, match="process 2 on host"):
        first.log.append({"n": 3})
    assert first.state.applied == [1]
    second.log.append({"n": 4})
    assert Driver(directory, 3).recovered == [1, 2, 4]


@pytest.mark.parametrize("make", [local, behind_arrow], ids=["local", "arrow"])
def test_late_segment_of_an_old_owner_neither_replaces_nor_outranks_a_newer_one(make: Make, tmp_path: Path) -> None:
    directory = make(tmp_path)
    first = Driver(directory, 1)
    first.log.append({"n": 1})
    second = Driver(directory, 2)
    second.log.append({"n": 2})
    # The old owner begins segments with the numbers that the new one uses.
    for _ in range(3):
        # As after a failed write.
        first.log._needs_base = True
        # The same.
        first.log._close_segment()
        with pytest.raises(WriteAheadLogError):
            first.log.append({"n": 99})
    assert Driver(directory, 3).recovered == [1, 2]


def test_new_driver_waits_for_a_change_in_progress_and_refuses_after_the_timeout(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    first = Claim.take(directory, owner(1))
    refused = r"has not finished for 0\.05 s: 'counts' \(app-1\), process 1 on host host.*It is suspended"
    with first.held(), pytest.raises(CheckpointError, match=refused):
        Claim.take(directory, owner(2), timeout_s=0.05)
    # The claim was withdrawn.
    first.check()
    Claim.take(directory, owner(3), timeout_s=0.05)
    with pytest.raises(ClaimLostError):
        first.check()


def test_new_driver_takes_the_directory_when_the_change_in_progress_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LocalDirectory(tmp_path)
    change = ExitStack()
    change.enter_context(Claim.take(directory, owner(1)).held())
    pauses: list[float] = []

    def complete_the_change(pause_s: float) -> None:
        pauses.append(pause_s)
        change.close()

    # A new driver pauses only while it waits for the lock.
    monkeypatch.setattr(time, "sleep", complete_the_change)
    assert Claim.take(directory, owner(2)).number == 2
    assert len(pauses) == 1


@pytest.mark.parametrize("make", [local, behind_arrow], ids=["without locks", "arrow"])
def test_change_counts_only_if_the_claim_is_held_after_it(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", raiser(OSError("no locks available")))
    directory = make(tmp_path)
    claim = Claim.take(directory, owner(1))
    with pytest.raises(ClaimLostError), claim.held():
        Claim.take(directory, owner(2))


def test_change_under_a_lock_counts_although_a_new_driver_waits_for_the_lock(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    claim = Claim.take(directory, owner(1))
    with claim.held():
        # The first thing that a new driver does.
        directory.child(CLAIMS).write(named(2, 0), b"")
    with pytest.raises(ClaimLostError):
        claim.check()


def test_deletion_counts_although_the_claim_is_lost_meanwhile(tmp_path: Path) -> None:
    directory = behind_arrow(tmp_path)
    claim = Claim.take(directory, owner(1))
    with claim.held(deletes=True):
        Claim.take(directory, owner(2))
    with pytest.raises(ClaimLostError), claim.held(deletes=True):
        raise AssertionError("nothing is to be deleted")


def test_claimed_directory_is_used_like_the_directory(directory: Directory, tmp_path: Path) -> None:
    files = ClaimedDirectory(directory, Claim.take(directory, owner(1)))
    files.write("file", b"content")
    assert [files.location(name) for name in ("", "file")] == [directory.location(name) for name in ("", "file")]
    assert files.child("deeper").location() == directory.child("deeper").location()
    assert files.changed_s() == directory.changed_s()
    assert files.names() == ["file"]
    files.copy_to("file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == files.read("file") == b"content"
    assert files.sync() == directory.sync()
    assert files.sync(files.sync()) == directory.sync()
    assert files.move("file", "aside") is True
    assert files.move("file", "aside") is False
    files.write("file", b"")
    assert files.delete("file") is True
    assert files.delete("file") is False


def test_owner_that_waits_for_the_lock_of_a_suspended_new_driver_finds_its_claim_lost(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    first = Claim.take(directory, owner(1))
    Claim.take(directory, owner(2))
    descriptor = os.open(tmp_path / CLAIMS / ".lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ClaimLostError), first.held():
        raise AssertionError("the change is not to be made")
    os.close(descriptor)


def test_file_system_without_locks_is_checked_after_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", raiser(OSError("no locks available")))
    directory = LocalDirectory(tmp_path)
    files = ClaimedDirectory(directory, Claim.take(directory, owner(1)))
    appender = files.append("file")
    appender.write(b"data")
    appender.commit()
    Claim.take(directory, owner(2))
    with pytest.raises(ClaimLostError):
        appender.commit()
    appender.close()


def test_directory_that_was_emptied_is_filled_again_by_its_owner(directory: Directory) -> None:
    claim = Claim.take(directory, owner(1))
    for folder in (directory.child(CLAIMS), directory):
        for name in folder.all_names():
            folder.delete(name)
    if isinstance(directory, LocalDirectory):
        Path(directory.location(CLAIMS)).rmdir()
    ClaimedDirectory(directory, claim).write("file", b"again")
    Claim.take(directory, owner(2))
    with pytest.raises(ClaimLostError):
        claim.check()


class Storage(RuleBasedStateMachine):
    """Drivers on a storage without locks, each of which may be suspended between any two of its operations.

    A write has two steps: the event is written; the claim is checked and the event acknowledged. A start has three: the
    driver chooses a number; it writes its claim; it lists the claims and reads the events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.claims: set[str] = set()
        self.written: list[int] = []
        self.acknowledged: set[int] = set()
        self.chosen: list[int] = []
        self.starting: list[str] = []
        self.owners: list[tuple[str, set[int]]] = []
        self.in_write: list[tuple[str, int]] = []
        self.next = 0
        self.tokens = 0

    @rule()
    def choose_number(self) -> None:
        self.chosen.append(max(map(number_of, self.claims), default=0) + 1)

    @precondition(lambda self: self.chosen)
    @rule(data=st.data())
    def write_claim(self, data: st.DataObject) -> None:
        number = self.chosen.pop(data.draw(st.integers(0, len(self.chosen) - 1)))
        self.tokens += 1
        # Of two claims with one number, either may be the greater.
        token = self.tokens if data.draw(st.booleans()) else 1000 - self.tokens
        name = named(number, token)
        self.claims.add(name)
        self.starting.append(name)

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def look_and_read(self, data: st.DataObject) -> None:
        name = self.starting.pop(data.draw(st.integers(0, len(self.starting) - 1)))
        if [claim for claim in self.claims if number_of(claim) >= number_of(name)] == [name]:
            self.owners.append((name, set(self.written)))
            self.claims = {claim for claim in self.claims if claim >= name}
        else:
            self.claims.discard(name)

    @precondition(lambda self: self.owners)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        name, events = self.owners[data.draw(st.integers(0, len(self.owners) - 1))]
        self.next += 1
        self.written.append(self.next)
        events.add(self.next)
        self.in_write.append((name, self.next))

    @precondition(lambda self: self.in_write)
    @rule(data=st.data())
    def check_and_acknowledge(self, data: st.DataObject) -> None:
        name, event = self.in_write.pop(data.draw(st.integers(0, len(self.in_write) - 1)))
        if newer_claim(name, self.claims) is None:
            self.acknowledged.add(event)

    @invariant()
    def no_number_has_two_owners(self) -> None:
        numbers = [number_of(name) for name, _events in self.owners]
        assert len(set(numbers)) == len(numbers)

    @invariant()
    def the_owner_has_read_what_was_acknowledged(self) -> None:
        for name, events in self.owners:
            if newer_claim(name, self.claims) is None:
                assert self.acknowledged <= events


TestStorage = Storage.TestCase
