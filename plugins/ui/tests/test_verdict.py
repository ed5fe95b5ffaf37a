from __future__ import annotations

import pytest
from attrs import evolve
from plugins.ui.tests.snapshots import HOSTILE, snapshot

from penstock_ui.dashboard.verdict import Lateness, Level, judge, lateness, receiver_problem, receiver_problems
from penstock_ui.snapshot import Snapshot


def verdict(state: Snapshot, later_ms: int = 0) -> tuple[Level, str, tuple[str, ...]]:
    found = judge(state, state.time_ms + later_ms)
    return found.level, found.headline, found.limits


def without_records(state: Snapshot) -> Snapshot:
    return evolve(state, batches=tuple(evolve(batch, records=0, inputs={}) for batch in state.batches))


def test_a_steady_application_keeps_up() -> None:
    level, headline, limits = verdict(snapshot(completed=150))
    assert level is Level.GOOD
    assert headline.startswith("Keeping up: batches use ")
    assert headline.endswith("% of the batch interval (1.0 sec).")
    assert limits == ()


def test_a_slow_application_falls_behind_and_its_slowest_operation_is_named() -> None:
    level, headline, limits = verdict(snapshot(completed=150, slow=True))
    assert level is Level.BAD
    assert headline.startswith("Falling behind: batches need 1")
    assert limits[0].startswith("8 batches wait; the last ones waited ")
    assert limits[1].startswith("Output operation 0 (write at orders.py:41) takes 70% of the processing time")


def test_batches_that_wait_although_they_are_fast_are_being_caught_up() -> None:
    state = snapshot(completed=120, slow=True)
    batches = tuple(
        evolve(batch, ended_ms=None if batch.ended_ms is None else (batch.started_ms or 0) + 300)
        for batch in state.batches
    )
    level, headline, _ = verdict(evolve(state, batches=batches))
    assert level is Level.WARNING
    assert headline.startswith("Catching up: batches use 30% of the batch interval (1.0 sec), and 8 batches wait")


def test_an_application_whose_batch_does_not_end_is_stalled_on_it() -> None:
    level, headline, limits = verdict(snapshot(), later_ms=60_000)
    assert level is Level.BAD
    assert headline == "Stalled: no batch has completed for 1.0 min."
    assert limits[0].startswith("The oldest running batch has spent ")
    assert "in output operation 0 (write at orders.py:41)" in limits[0]


def test_an_application_that_generates_no_batches_is_stalled_on_its_driver() -> None:
    state = snapshot()
    done = evolve(state, batches=state.completed)
    assert verdict(done, later_ms=60_000)[2] == (
        "The driver generates no batches: look at its log for the last error.",
    )


def test_late_generation_is_told() -> None:
    state = snapshot()
    late = evolve(state, batches=tuple(evolve(batch, submitted_ms=batch.time_ms + 1800) for batch in state.batches))
    assert verdict(late)[:2] == (Level.WARNING, "Late: batches are generated 1.8 sec after their time.")


def test_failed_batches_are_counted() -> None:
    level, _, limits = verdict(snapshot(completed=62))
    assert level is Level.WARNING
    assert "1 of the last 20 batches failed." in limits


def test_the_streams_that_a_limit_holds_back_are_named() -> None:
    state = snapshot(receivers=2)
    held = evolve(state, streams=(evolve(state.streams[0], rate_limit=10.0), evolve(state.streams[1], rate_limit=20.0)))
    assert "Rate limits hold back orders (10 records/s) and 1 other stream." in verdict(held)[2]


def test_receivers_that_do_not_receive_make_data_missing() -> None:
    level, headline, limits = verdict(
        snapshot(20, 150, problems={3: "stopped", 5: "given up", 7: "stopped", 9: "lost"})
    )
    assert level is Level.WARNING
    assert headline.startswith("Keeping up")
    missing = "Data is missing: KafkaReceiver-3, KafkaReceiver-5 and 1 other receiver are not receiving."
    assert limits[0] == missing
    assert (
        verdict(snapshot(4, 150, problems={3: "stopped"}))[2][0] == "Data is missing: KafkaReceiver-3 is not receiving."
    )


def test_failing_checkpoints_are_told() -> None:
    state = snapshot(1, 150)
    failing = evolve(state, storage=evolve(state.storage, checkpoint_failures=3))
    assert verdict(failing)[2] == ("Checkpoints cannot be written: a recovery would restart from an older one.",)


def test_an_application_without_records_is_idle() -> None:
    assert verdict(without_records(snapshot()))[1] == "Idle: the last 20 batches had no records."


def test_a_finished_application_is_judged_by_its_last_batches() -> None:
    level, headline, _ = verdict(snapshot(completed=150, live=False), later_ms=10**9)
    assert level is Level.GOOD
    assert headline.startswith("Ended. Its last batches: keeping up: batches use ")


def test_before_the_first_batch_nothing_is_claimed() -> None:
    started = snapshot(completed=0)
    assert judge(evolve(started, batches=()), 0) == judge(evolve(started, batches=()), 10**12)
    assert judge(evolve(started, batches=()), 0).headline == "Waiting for the first batch."
    assert judge(started, started.batches[0].started_ms or 0).headline == "The first batch has been running for 0 ms."
    assert judge(evolve(started, is_live=False, batches=()), 0).headline == "Ended before a batch completed."


def late(state: Snapshot, later_ms: int = 0) -> Lateness:
    return lateness(state, state.time_ms + later_ms)


def test_lateness_is_measured_from_the_arrival_of_records() -> None:
    found = late(snapshot(completed=150))
    assert found.level is Level.GOOD
    assert found.typical_ms is not None
    assert found.high_ms is not None
    assert 1000 < found.typical_ms <= found.high_ms < 2500
    assert found.explanation == "from a record's arrival to the end of its batch"


def test_without_arrival_times_lateness_is_an_upper_bound() -> None:
    state = snapshot(completed=150)
    unknown = evolve(state, batches=tuple(evolve(batch, latency_ms=None) for batch in state.batches))
    assert late(unknown).explanation.startswith("upper bound")
    assert (late(unknown).typical_ms or 0) >= (late(state).typical_ms or 0)
    assert late(evolve(state, batches=())).typical_ms is None


def test_data_becomes_later_while_no_batch_ends() -> None:
    for state in (snapshot(), evolve(snapshot(), batches=snapshot().completed)):
        stalled = late(state, later_ms=60_000)
        assert stalled.level is Level.BAD
        assert 59_000 < (stalled.typical_ms or 0) < 63_000
        assert stalled.high_ms is None
        assert stalled.explanation.startswith("and rising")
    assert late(snapshot(live=False), later_ms=60_000).level is Level.GOOD


@pytest.mark.parametrize(
    ("trouble", "level", "reason"),
    [
        ("stopped", Level.BAD, "not active"),
        ("given up", Level.BAD, "given up: it failed too often and is not relaunched"),
        ("unhealthy", Level.WARNING, "unhealthy: it fails more often than spark.penstock.receiver.maxRestarts allows"),
        ("lost", Level.WARNING, "lost 3 blocks with 1,200 records"),
        ("hostile", Level.WARNING, "reported an error 42.0 sec ago"),
    ],
)
def test_what_is_wrong_with_a_receiver_is_said(trouble: str, level: Level, reason: str) -> None:
    state = snapshot(problems={0: trouble})
    problem = receiver_problem(state.streams[0], state.time_ms)
    assert problem is not None
    assert (problem.level, problem.reason) == (level, reason)


def test_the_worst_receivers_come_first_and_sound_ones_not_at_all() -> None:
    state = snapshot(receivers=20, problems={3: "hostile", 5: "given up", 7: "lost"})
    assert [problem.stream.id for problem in receiver_problems(state, state.time_ms)] == [5, 3, 7]
    assert receiver_problems(state, state.time_ms)[1].stream.name == HOSTILE


def test_an_old_error_and_a_stopped_application_are_no_problem_of_a_receiver() -> None:
    state = snapshot(problems={0: "hostile"})
    assert receiver_problem(state.streams[0], state.time_ms + 3_600_000) is None
    stopped = snapshot(problems={0: "stopped"}, live=False)
    info = stopped.streams[0].receiver
    assert info is not None
    old = evolve(stopped.streams[0], receiver=evolve(info, lastErrorTime=-1))
    assert receiver_problem(old, stopped.time_ms, is_live=False) is None
