"""Blocks on several hosts are read and deleted through the launch that serves their host now.

A host is an address of this machine and a directory; a task runs on none of them. A long file, because all cases share
these hosts.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from tests.helpers.waiting import wait_for
from tests.track.conftest import Prefers

from penstock import Receiver
from penstock.blocks.block import BlockReference
from penstock.blocks.block_transfer import BlockSource, FindBlock
from penstock.errors import BlockGoneError, BlockUnreachableError
from penstock.listen.events import ReceiverError
from penstock.receive.messages import CleanUpBlocks, ReleaseReceiver, StopReceiver
from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation
from penstock.track import allocations, receiver_launcher, receiver_tracking_info as lifecycle, relaunch_lifecycle
from penstock.worker import block_reader

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked

MakeTracker = Callable[..., "Tracked"]
SilentClass = type[Receiver[Any]]
MASTER = "spark://somewhere:7077"
A, B = TaskLocation("host-a", "1"), TaskLocation("host-b", "2")
A_ADDRESS, B_ADDRESS = "127.0.0.2", "127.0.0.3"


class Hosts:
    """A tracker with executors on two hosts."""

    def __init__(self, tracked: Tracked, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tracked = tracked
        self._folder = folder
        tracked.executors = [A, B]
        # They may come up anywhere.
        monkeypatch.setattr(relaunch_lifecycle, "_MAX_REFUSALS", 0)
        tracked.tracker.start()

    def on(self, number: int, place: TaskLocation) -> FakeProcess:
        """The process of a launch that has come up there, registered."""
        self.tracked.places[self.tracked.launch(number).group] = place
        address, name = (A_ADDRESS, "a") if place == A else (B_ADDRESS, "b")
        return self.tracked.registered(number, address, str(self._folder / name))

    def references(self, time_ms: int = 100, stream_id: int = 0) -> list[BlockReference]:
        """Those of a batch, for a task that finds no file."""
        tracker = self.tracked.tracker
        tracker.blocks.allocate_blocks_to_batch(time_ms)
        found = self.tracked.located(tracker.blocks.blocks_of_batch(time_ms, stream_id))
        return [evolve(reference, path="/not/on/this/host.arrow") for _host, _size, reference in found]

    def read(self, references: list[BlockReference]) -> list[Any]:
        return list(self.tracked.tracker.reader(0, [tuple(references)]))

    def lose(self, process: FakeProcess, executor: TaskLocation | None = None) -> None:
        """A process dies, with its executor or without."""
        if executor is not None:
            self.tracked.executors.remove(executor)
        process.close()
        process.launch.end(RuntimeError("lost"))
        self.tracked.settle()

    def tick(self, duration_ms: int = 1000) -> None:
        self.tracked.await_waiters()
        self.tracked.clock.advance(duration_ms)
        self.tracked.await_waiters()
        self.tracked.settle()

    @property
    def errors(self) -> list[str]:
        self.tracked.settle()
        events = self.tracked.events.entries
        return [event.receiverInfo.lastErrorMessage for event in events if isinstance(event, ReceiverError)]


@pytest.fixture
def hosts(
    make_tracker: MakeTracker, silent: SilentClass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Hosts]:
    """Makes two hosts, for a number of receivers."""

    def make(*receivers: Receiver[Any], **conf: str) -> Hosts:
        made = make_tracker(receivers or [silent(), silent()], master=MASTER, conf=conf)
        return Hosts(made, tmp_path, monkeypatch)

    return make


# -- reading --


def test_blocks_of_a_lost_receiver_are_served_by_another_on_its_host(
    hosts: Callable[..., Hosts], silent: SilentClass
) -> None:
    two = hosts(silent(), silent(), silent())
    first, second = two.on(1, A), two.on(2, A)
    stored = first.store(0, 1)
    two.lose(first)
    two.tracked.relaunch(300)
    again = two.on(4, B)
    stored += again.store(0)
    references = two.references(stream_id=first.task.stream_id)
    assert [reference.source for reference in references] == [second.source, second.source, again.source]
    assert two.read(references) == stored


def test_task_finds_blocks_that_a_relaunched_receiver_serves(hosts: Callable[..., Hosts]) -> None:
    two = hosts()
    first, _other = two.on(1, A), two.on(2, B)
    stored = first.store(0)
    references = two.references(stream_id=first.task.stream_id)
    assert references[0].source == first.source
    two.lose(first)
    two.tracked.relaunch(300)
    assert two.on(3, A).source != first.source
    assert two.read(references) == stored
    assert two.errors == ["the receiver's task failed: RuntimeError: lost"]


def test_unserved_block_is_not_lost_while_its_host_has_an_executor(
    hosts: Callable[..., Hosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_reader, "_SEARCH_S", 0.0)
    two = hosts(**{"spark.penstock.blocks.onLost": "skip"})
    first, _other = two.on(1, A), two.on(2, B)
    first.store(0)
    earlier = two.references(stream_id=first.task.stream_id)
    two.lose(first)
    # Spark tries such a task again.
    for references in (earlier, two.references(stream_id=first.task.stream_id)):
        with pytest.raises(BlockUnreachableError, match="input-"):
            two.read(references)
    assert [said for said in two.errors if "lost," in said] == []


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_block_on_a_host_without_executors_is_lost(hosts: Callable[..., Hosts], policy: str) -> None:
    two = hosts(**{"spark.penstock.blocks.onLost": policy})
    first, other = two.on(1, A), two.on(2, B)
    stored = [*first.store(0), *other.store(0)]
    references = two.references(stream_id=0) + two.references(stream_id=1)
    two.lose(first, A)
    if policy == "skip":
        assert two.read(references) == stored[1:]
    else:
        with pytest.raises(BlockGoneError, match="input-"):
            two.read(references)
    assert len([said for said in two.errors if "1 blocks (1 records) are lost" in said]) == 1


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_executor_that_is_lost_during_an_allocation_costs_its_own_blocks_of_that_batch_only(
    hosts: Callable[..., Hosts], monkeypatch: pytest.MonkeyPatch, moment: str, policy: str
) -> None:
    two = hosts(**{"spark.penstock.blocks.onLost": policy})
    first, other = two.on(1, A), two.on(2, B)
    first.store(0)
    stored = other.store(0)
    allocated = allocations.batch_allocated

    def losing(time_ms: int, block_ids: Any) -> allocations.Event:
        # The queues have been read, and the batch has no blocks yet.
        if time_ms == 100 and moment == "during":
            two.lose(first, A)
        return allocated(time_ms, block_ids)

    monkeypatch.setattr(allocations, "batch_allocated", losing)
    if moment == "before":
        two.lose(first, A)
    batch = two.references(100, stream_id=0) + two.references(100, stream_id=1)
    if moment == "after":
        two.lose(first, A)
    two.tracked.relaunch(300)
    again = two.on(3, B)
    later = again.store(0)
    for _attempt in range(2):
        if policy == "skip":
            assert two.read(batch) == stored
        else:
            with pytest.raises(BlockGoneError, match="input-"):
                two.read(batch)
    assert two.read(two.references(200, stream_id=0) + two.references(200, stream_id=1)) == later
    assert len([said for said in two.errors if "1 blocks (1 records) are lost" in said]) == 1
    # Its blocks count as backlog until their batch completes.
    two.tracked.tracker.processed(200)
    assert two.tracked.tracker.backlog.num_bytes == 0


def test_endpoint_without_the_file_reports_the_block_lost(hosts: Callable[..., Hosts]) -> None:
    two = hosts()
    first, _other = two.on(1, A), two.on(2, B)
    first.store(0)
    shutil.rmtree(first.directory)
    with pytest.raises(BlockGoneError, match="does not exist"):
        two.read(two.references(stream_id=first.task.stream_id))


def test_another_directory_is_another_location(make_tracker: MakeTracker, silent: SilentClass, tmp_path: Path) -> None:
    tracked = make_tracker([silent(), silent()], master=MASTER)
    tracked.tracker.start()
    one = tracked.registered(1, A_ADDRESS, str(tmp_path / "one"))
    tracked.registered(2, A_ADDRESS, str(tmp_path / "two"))
    one.store(0)
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    blocks = tracked.tracker.blocks.blocks_of_batch(100, one.task.stream_id)
    ((_host, _size, reference),) = tracked.located(blocks)
    assert reference.source == one.source


def test_relaunch_returns_to_blocks_that_nobody_serves(hosts: Callable[..., Hosts]) -> None:
    two = hosts(Prefers("host-b"))
    first = two.on(1, A)
    stored = first.store(0)
    two.lose(first)
    two.tracked.relaunch(300)
    assert two.tracked.launch(2).hosts == ("executor_host-a_1",)
    second = two.on(2, A)
    assert two.read(two.references()) == stored
    # When all of it was used, it goes where it likes.
    two.tracked.tracker.clean_up(200, delete=True)
    second.received.await_one(CleanUpBlocks)
    two.lose(second)
    two.tracked.relaunch(600)
    assert two.tracked.launch(3).hosts == ("executor_host-b_2",)


def test_receiver_of_a_lost_executor_is_relaunched_elsewhere(hosts: Callable[..., Hosts]) -> None:
    two = hosts(Prefers("host-a"))
    first = two.on(1, A)
    first.store(0)
    two.lose(first, A)
    two.tracked.relaunch(300)
    assert two.tracked.launch(2).hosts == ("host-a", "executor_host-b_2")


def test_task_waits_for_a_receiver_that_is_being_relaunched(
    hosts: Callable[..., Hosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    two, asked = hosts(), list[object]()
    # Holds the race open: the test sees each question of the task.
    locations = two.tracked.tracker._locations
    find = locations.find

    def note(message: FindBlock) -> BlockSource:
        asked.append(message)
        return find(message)

    monkeypatch.setattr(locations, "find", note)
    first, _other = two.on(1, A), two.on(2, B)
    stored = first.store(0)
    references = two.references(stream_id=first.task.stream_id)
    two.lose(first)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(two.read, references)
        wait_for(lambda: asked, "the task to ask for it")
        two.tracked.relaunch(300)
        two.on(3, A)
        assert reading.result(timeout=10) == stored


def test_wait_of_a_task_for_a_receiver_is_bounded(hosts: Callable[..., Hosts], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_reader, "_SEARCH_S", 0.2)
    two = hosts()
    first, _other = two.on(1, A), two.on(2, B)
    first.store(0)
    references = two.references(stream_id=first.task.stream_id)
    two.lose(first)
    before = time.monotonic()
    with pytest.raises(BlockUnreachableError, match="input-"):
        two.read(references)
    assert time.monotonic() - before < 20


# -- a place that Spark does not name --


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tracked, int], None]:
    """Has Spark not say where a launch runs."""
    monkeypatch.setattr(receiver_launcher, "_LOCATION_PAUSE_S", 0.001)
    groups = set[str]()

    def hide(tracked: Tracked, number: int) -> None:
        groups.add(tracked.launch(number).group)
        task = cluster.running_task
        monkeypatch.setattr(
            cluster, "running_task", lambda sc, group: None if group in groups else task(sc, group), raising=True
        )

    return hide


@pytest.mark.parametrize("hidden", [1, 3], ids=["first", "later"])
def test_blocks_on_a_nameless_host_are_served_by_the_next_launch_there(
    hosts: Callable[..., Hosts], nameless: Callable[[Tracked, int], None], hidden: int
) -> None:
    two = hosts(**{"spark.penstock.blocks.onLost": "skip"})
    if hidden == 1:
        nameless(two.tracked, 1)
    first, _other = two.on(1, A), two.on(2, B)
    stored = first.store(0)
    references = two.references(stream_id=first.task.stream_id)
    two.lose(first)
    two.tracked.relaunch(300)
    if hidden == 3:
        nameless(two.tracked, 3)
    again = two.on(3, A)
    assert two.read(references) == stored
    assert [reference.source for reference in two.references(stream_id=first.task.stream_id)] == [again.source]
    two.tracked.tracker.clean_up(200, delete=True)
    assert again.received.await_one(CleanUpBlocks) == CleanUpBlocks(stored)


def test_blocks_on_a_nameless_host_are_not_lost(
    hosts: Callable[..., Hosts], nameless: Callable[[Tracked, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_reader, "_SEARCH_S", 0.0)
    two = hosts(**{"spark.penstock.blocks.onLost": "skip"})
    nameless(two.tracked, 1)
    first, _other = two.on(1, A), two.on(2, B)
    stored = first.store(0)
    references = two.references(stream_id=first.task.stream_id)
    two.lose(first)
    with pytest.raises(BlockUnreachableError, match="input-"):
        two.read(references)
    # Nor forgotten when it is to be deleted.
    two.tracked.tracker.clean_up(200, delete=True)
    two.tracked.settle()
    two.tracked.relaunch(300)
    assert two.on(3, A).received.await_one(CleanUpBlocks) == CleanUpBlocks(stored)


# -- deleting --


def test_blocks_are_deleted_through_the_launch_on_their_host(hosts: Callable[..., Hosts], silent: SilentClass) -> None:
    two = hosts(silent(), silent(), silent())
    first, second = two.on(1, A), two.on(2, A)
    old = first.store(0)
    two.lose(first)
    two.tracked.relaunch(300)
    again = two.on(4, B)
    new = again.store(0)
    two.references()
    two.tracked.tracker.clean_up(200, delete=True)
    assert again.received.await_one(CleanUpBlocks) == CleanUpBlocks(new)
    assert second.received.await_one(CleanUpBlocks) == CleanUpBlocks(old)


def test_unserved_blocks_are_deleted_by_the_next_launch_there(hosts: Callable[..., Hosts]) -> None:
    two = hosts()
    first, second = two.on(1, A), two.on(2, B)
    old = first.store(0)
    two.lose(first)
    two.references()
    two.tracked.tracker.clean_up(200, delete=True)
    two.tracked.settle()
    two.tracked.relaunch(300)
    again = two.on(3, A)
    assert again.received.await_one(CleanUpBlocks) == CleanUpBlocks(old)
    assert second.received.entries == []


def test_undeleted_blocks_of_a_host_without_executors_are_forgotten(hosts: Callable[..., Hosts]) -> None:
    two = hosts()
    first, _other = two.on(1, A), two.on(2, B)
    first.store(0)
    two.references()
    two.lose(first, A)
    two.tracked.tracker.clean_up(200, delete=True)
    two.tracked.settle()
    # No public name for a leak: blocks to delete on a host that is gone.
    assert two.tracked.tracker._locations._undeleted == {}


# -- moving --


@pytest.fixture
def moved(hosts: Callable[..., Hosts]) -> tuple[Hosts, FakeProcess, list[str]]:
    """One that was alone on a host, was sent a stop to move to the one that it prefers, and has ended."""
    two = hosts(Prefers("host-b"))
    first = two.on(1, A)
    stored = first.store(0)
    two.tick(5000)
    stop = first.received.await_one(StopReceiver)
    assert (stop.message, stop.serve_ms) == ("moves to another executor", 60_000)
    stored += first.store(1)
    assert first.deregister("moves to another executor", ended=True).accepted
    return two, first, stored


def test_moved_receiver_serves_its_blocks_until_they_are_processed(
    moved: tuple[Hosts, FakeProcess, list[str]],
) -> None:
    two, first, stored = moved
    two.tracked.relaunch()
    second = two.on(2, B)
    stored += second.store(0)
    references = two.references()
    assert [reference.source for reference in references] == [first.source, first.source, second.source]
    assert two.read(references) == stored
    two.tick()
    assert ReleaseReceiver() not in first.received.entries
    two.tracked.tracker.clean_up(200, delete=True)
    assert first.received.await_one(CleanUpBlocks) == CleanUpBlocks(stored[:2])
    two.tick()
    first.received.await_one(ReleaseReceiver)
    second.received.await_one(CleanUpBlocks)
    assert second.received.names == ["CleanUpBlocks"]
    # The end of a draining launch is neither a failure nor a reason to relaunch.
    first.launch.end()
    two.tick()
    assert (two.errors, len(two.tracked.launches)) == ([], 2)


def test_draining_launch_is_released_when_another_serves_its_host(moved: tuple[Hosts, FakeProcess, list[str]]) -> None:
    two, first, stored = moved
    two.tracked.relaunch()
    second = two.on(2, A)
    two.tick()
    first.received.await_one(ReleaseReceiver)
    references = two.references()
    assert [reference.source for reference in references] == [second.source] * 2
    assert two.read(references) == stored
    assert [connection.source for connection in two.tracked.connections()] == [second.source]
    # It serves as long as it does not know of its release.
    two.tracked.receivers.step(0, lifecycle.Undelivered(1, ReleaseReceiver()))
    assert [connection.source for connection in two.tracked.connections()] == [first.source, second.source]


def test_draining_launches_serve_the_last_batches_of_a_stop(
    moved: tuple[Hosts, FakeProcess, list[str]],
) -> None:
    two, first, _stored = moved
    two.tracked.relaunch()
    second = two.on(2, B)
    second.on_message = lambda _message: second.launch.end()
    two.tracked.tracker.stop(time.monotonic() + 100, drains=True)
    stop = first.received.await_one(StopReceiver, number=2)
    assert stop.message == "Stopped by driver"
    assert 100_000 < stop.serve_ms <= 105_000


def test_draining_launch_serves_longer_while_batches_complete(
    moved: tuple[Hosts, FakeProcess, list[str]],
) -> None:
    two, first, _stored = moved

    def stops() -> int:
        return first.received.names.count("StopReceiver")

    # A batch has ended, and the receiver waits for a slot still: it may be this one that it gets.
    two.tracked.tracker.processed(100)
    two.tracked.relaunch()
    two.tracked.launch(2)
    two.tick(30_000)
    assert stops() == 1
    second = two.on(2, B)
    for number in (2, 3):
        two.tracked.tracker.processed(number * 100)
        two.tick(30_000)
        assert first.received.await_one(StopReceiver, number).serve_ms == 60_000
        # None has ended since: they may need that slot to.
        two.tick(30_000)
        assert stops() == number
    assert second.received.entries == []


def test_draining_launch_is_asked_to_serve_longer_at_most_every_half_minute(
    moved: tuple[Hosts, FakeProcess, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    two, _first, _stored = moved
    two.tracked.relaunch()
    two.on(2, B)
    asked: list[tuple[int, bool]] = []

    def send(message: object, *, urgent: bool = False) -> None:
        if message == StopReceiver("serve blocks longer", 60_000):
            asked.append((two.tracked.clock.now_ms(), urgent))

    # Connections stay inside the tracker.
    draining = two.tracked.tracker._locations.connections.get(0, 1)
    monkeypatch.setattr(draining, "send", send)
    for number in range(62):
        two.tracked.tracker.processed(100 + number)
        two.tick()
    times = [time_ms for time_ms, _urgent in asked]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [30_000] * 2
    # It overtakes a deletion that the old launch is slow to answer.
    assert all(urgent for _time_ms, urgent in asked)


def test_dead_draining_launch_is_no_source(moved: tuple[Hosts, FakeProcess, list[str]]) -> None:
    two, first, _stored = moved
    two.tracked.relaunch()
    two.on(2, B)
    first.close()
    first.launch.end(RuntimeError("lost"))
    two.tracked.settle()
    assert [reference.source for reference in two.references()] == ["", ""]
    assert (two.errors, len(two.tracked.launches)) == ([], 2)


def test_draining_launch_is_released_at_the_end(moved: tuple[Hosts, FakeProcess, list[str]]) -> None:
    two, first, stored = moved
    two.tracked.relaunch()
    second = two.on(2, B)
    second.on_message = lambda _message: second.launch.end()
    two.tracked.tracker.stop(0, drains=True)
    assert two.read(two.references()) == stored
    first.on_message = lambda _message: first.launch.end()
    two.tracked.tracker.release()
    first.received.await_one(ReleaseReceiver)
    assert not first.launch.cancelled
