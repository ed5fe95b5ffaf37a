"""Receivers on a cluster are spread, refused on a wrong executor, and moved when executors join."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from tests.track.conftest import Prefers

from penstock import Receiver
from penstock.receive.messages import StopReceiver
from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation
from penstock.track import placement, receiver_launcher, receiver_tracking_info as lifecycle

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked

MakeTracker = Callable[..., "Tracked"]
SilentClass = type[Receiver[Any]]
ONE, TWO, THREE = (TaskLocation(f"host-{name}", str(number)) for number, name in enumerate("abc", start=1))
MASTER = "spark://somewhere:7077"


def on(tracked: Tracked, number: int, place: TaskLocation) -> FakeProcess:
    """The process of a launch that Spark has started in this place, registered."""
    tracked.places[tracked.launch(number).group] = place
    return tracked.registered(number)


def tick(tracked: Tracked, duration_ms: int = 1000) -> None:
    tracked.await_waiters()
    tracked.clock.advance(duration_ms)
    tracked.await_waiters()
    tracked.settle()


def test_receivers_are_spread_over_the_executors(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked = make_tracker([silent(), silent(), Prefers("host-b")], master=MASTER)
    tracked.executors = [ONE, TWO, THREE]
    tracked.tracker.start()
    tracked.launch(3)
    assert [launch.hosts for launch in tracked.launches] == [
        ("executor_host-a_1",),
        ("executor_host-c_3",),
        ("executor_host-b_2",),
    ]


def test_unregistered_receiver_is_relaunched_where_it_was_scheduled(
    make_tracker: MakeTracker, silent: SilentClass
) -> None:
    tracked = make_tracker([silent(), silent()], master=MASTER)
    tracked.executors = [ONE, TWO]
    tracked.tracker.start()
    scheduled = {tracked.launch(n).task.stream_id: tracked.launch(n) for n in (1, 2)}
    assert scheduled[1].hosts == ("executor_host-b_2",)
    # By now there is one with less to do.
    tracked.executors = [ONE, TWO, THREE]
    scheduled[1].end(RuntimeError("it did not come up"))
    tracked.relaunch(300)
    assert tracked.launch(3).hosts == ("executor_host-b_2",)
    # Where it was scheduled there is nobody any more.
    tracked.executors = [ONE, THREE]
    tracked.launch(3).end(RuntimeError("again"))
    tracked.relaunch(600)
    assert tracked.launch(4).hosts == ("executor_host-c_3",)


def test_receiver_on_unknown_executor_is_accepted(make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_launcher, "_LOCATION_PAUSE_S", 0.0)
    tracked = make_tracker(master=MASTER)
    tracked.place = None  # type: ignore[assignment]  # as Spark's books before they are written
    tracked.tracker.start()
    assert tracked.registered().add(0).accepted


def test_launch_waits_for_the_requested_executors(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked = make_tracker([silent(), silent()], master="local-cluster[2,2,1024]")
    tracked.executors = []
    tracked.tracker.start()
    tick(tracked)
    tracked.executors = [ONE]
    tick(tracked)
    assert tracked.launches == []
    tracked.executors = [ONE, TWO]
    tick(tracked)
    tracked.launch(2)
    assert sorted(launch.hosts for launch in tracked.launches) == [("executor_host-a_1",), ("executor_host-b_2",)]


def test_wait_for_executors_has_a_timeout(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked = make_tracker([silent(), silent()], master="local-cluster[4,1,1024]")
    tracked.tracker.start()
    tick(tracked, 29_000)
    assert tracked.launches == []
    tick(tracked, 1000)
    tracked.launch(2)
    assert {launch.hosts for launch in tracked.launches} == {("executor_host-a_1",)}


def test_stop_while_waiting_for_executors_launches_nothing(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(master="local-cluster[2,1,1024]")
    tracked.executors = []
    tracked.tracker.start()
    tracked.tracker.stop(0)
    tracked.clock.advance(100_000)
    assert tracked.launches == []


def two_on_one(
    make_tracker: MakeTracker, silent: SilentClass, **options: Any
) -> tuple[Tracked, dict[int, FakeProcess]]:
    """Two receivers, by stream id, on the one executor there is."""
    tracked = make_tracker([silent(), silent()], master=MASTER, **options)
    tracked.executors = [ONE]
    tracked.tracker.start()
    processes = [on(tracked, number, ONE) for number in (1, 2)]
    return tracked, {process.task.stream_id: process for process in processes}


def test_receiver_moves_to_an_executor_that_joins(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked, processes = two_on_one(make_tracker, silent)
    tick(tracked, 5000)
    assert processes[1].received.entries == []
    tracked.executors = [ONE, TWO]
    tick(tracked, 5000)
    assert processes[1].received.await_one(StopReceiver) == StopReceiver("moves to another executor")
    # While it moves, no other receiver does.
    tick(tracked, 5000)
    assert processes[1].add(0).accepted
    processes[1].deregister("moves to another executor")
    tick(tracked, 5000)
    processes[1].launch.end()
    tracked.relaunch()
    assert tracked.launch(3).hosts == ("executor_host-b_2",)
    moved = on(tracked, 3, TWO)
    tick(tracked, 5000)
    tick(tracked, 5000)
    assert processes[0].received.entries == moved.received.entries == []
    assert "ReceiverError" not in tracked.events.names
    assert tracked.tracker.receiver_infos()[1].location == "host-b"


def test_no_move_when_rebalance_is_off(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked, processes = two_on_one(make_tracker, silent, conf={"spark.penstock.receiver.rebalance": "false"})
    tracked.executors = [ONE, TWO]
    tick(tracked, 5000)
    assert processes[0].received.entries == processes[1].received.entries == []


def test_executors_are_examined_for_a_move_again_only_after_a_change(
    make_tracker: MakeTracker, silent: SilentClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked, processes = two_on_one(make_tracker, silent)
    examined: list[int | None] = []
    to_move = placement.receiver_to_move

    def noted(*arguments: Any) -> int | None:
        examined.append(to_move(*arguments))
        return examined[-1]

    monkeypatch.setattr(placement, "receiver_to_move", noted)
    tracked.executors = [ONE]
    for _ in range(3):
        tick(tracked, 5000)
    assert examined == [None]
    tracked.executors = [ONE, TWO]
    tick(tracked, 5000)
    assert examined == [None, 1]
    # The move has not been delivered: the same executors are examined again.
    processes[1].received.await_one(StopReceiver)
    tracked.receivers.step(1, lifecycle.Undelivered(1, StopReceiver("moves to another executor")))
    tick(tracked, 5000)
    assert examined == [None, 1, 1]


def test_executors_are_examined_for_a_move_every_five_seconds(
    make_tracker: MakeTracker, silent: SilentClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked, _processes = two_on_one(make_tracker, silent)
    asked: list[int] = []
    to_move = tracked.launcher.placement.to_move

    def noted(records: Any) -> int | None:
        asked.append(tracked.clock.now_ms())
        return to_move(records)

    monkeypatch.setattr(tracked.launcher.placement, "to_move", noted)
    for _ in range(11):
        tick(tracked)
    assert len(asked) >= 2
    assert {later - earlier for earlier, later in itertools.pairwise(asked)} == {5000}


@pytest.mark.parametrize(
    ("master", "conf", "moves"),
    [(MASTER, {}, True), ("local[8]", {}, False), (MASTER, {"spark.penstock.receiver.rebalance": "false"}, False)],
)
def test_receivers_move_on_a_cluster_when_all_are_settled(
    make_tracker: MakeTracker, silent: SilentClass, master: str, conf: dict[str, str], moves: bool
) -> None:
    tracked = make_tracker([silent(), silent()], master=master, conf=conf)
    tracked.executors = [ONE, TWO]
    active = {
        stream_id: evolve(record, state=lifecycle.Active(lifecycle.Launch(1, 0)), location=ONE)
        for stream_id, record in tracked.receivers.records.items()
    }
    restarting = evolve(active[0], state=lifecycle.Restarting(lifecycle.Launch(1, 0)))
    assert tracked.launcher.placement.to_move({**active, 0: restarting}) is None
    assert tracked.launcher.placement.to_move(active) == (1 if moves else None)


def test_only_receivers_that_run_or_may_run_occupy_executors(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(master=MASTER)
    tracked.executors = [ONE, TWO]
    record = tracked.receivers.records[0]
    states: list[tuple[lifecycle.State, list[TaskLocation]]] = [
        (lifecycle.Active(lifecycle.Launch(1, 0)), [TWO]),
        (lifecycle.Scheduled(lifecycle.Launch(1, 0), (TWO,)), [ONE]),
        (lifecycle.BackingOff(0), [ONE, TWO]),
    ]
    for state, candidates in states:
        other = evolve(record, state=state, location=ONE)
        assert tracked.launcher.placement.reschedule(record, [other], None, goes_back=False) == candidates
    unknown = evolve(record, state=lifecycle.Active(lifecycle.Launch(1, 0)))
    assert tracked.launcher.placement.lost([unknown, evolve(unknown, location=THREE)]) == [0]


def test_receivers_on_this_machine_have_no_executors_to_choose_from(make_tracker: MakeTracker) -> None:
    tracked = make_tracker()
    placed = tracked.launcher.placement
    assert (placed.executors(), placed.lost(tracked.receivers.records.values())) == ([], [])
    assert placed.has_executor("any")


@pytest.mark.parametrize(
    ("master", "conf", "count"),
    [
        ("local-cluster[3,1,1024]", {}, 3),
        ("local-cluster[ 2 , 1 , 1024 ]", {"spark.executor.instances": "7"}, 2),
        ("yarn", {"spark.executor.instances": "7"}, 7),
        (MASTER, {"spark.cores.max": "9", "spark.executor.cores": "4"}, 2),
        (MASTER, {"spark.cores.max": "2", "spark.executor.cores": "4"}, 1),
        (MASTER, {}, 1),
    ],
)
def test_expected_executors(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch, master: str, conf: dict[str, str], count: int
) -> None:
    tracked = make_tracker(master=master)
    monkeypatch.setattr(tracked.sc, "conf", conf)
    assert cluster.expected_executors(tracked.sc) == count


def test_receiver_of_an_executor_that_is_gone_is_relaunched_elsewhere_at_the_next_tick(
    make_tracker: MakeTracker, silent: SilentClass
) -> None:
    tracked = make_tracker([silent()], master=MASTER, conf={"spark.penstock.receiver.rebalance": "false"})
    tracked.executors = [ONE, TWO]
    tracked.tracker.start()
    first = on(tracked, 1, ONE)
    tick(tracked)
    assert not first.launch.cancelled
    tracked.executors = [TWO]
    tick(tracked)
    assert first.launch.cancelled
    tracked.relaunch(300)
    assert tracked.launch(2).hosts == ("executor_host-b_2",)
    on(tracked, 2, TWO)
    tick(tracked)
    assert not tracked.launch(2).cancelled


def test_receivers_stay_where_they_are_while_spark_does_not_list_its_executors(
    make_tracker: MakeTracker, silent: SilentClass, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_sc: object) -> None:
        raise ConnectionRefusedError("no JVM")

    tracked = make_tracker([silent()], master=MASTER)
    tracked.executors = [ONE, TWO]
    tracked.tracker.start()
    first = on(tracked, 1, ONE)
    for name in ("executors", "executor_ids"):
        monkeypatch.setattr(cluster, name, fail)
    tick(tracked)
    assert not first.launch.cancelled
    assert "executors unknown" in caplog.text
    assert "no JVM" in caplog.text
    assert "tracker event failed" not in caplog.text
    assert tracked.launcher.placement.executors() == []
