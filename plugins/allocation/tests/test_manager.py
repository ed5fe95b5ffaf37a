"""``ExecutorAllocationManager``: events become loads, decisions become commands; the configuration is checked."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from penstock import BatchCompleted, BatchInfo, BatchSubmitted, ConfigurationError
from penstock_allocation import ExecutorAllocationManager, listeners
from penstock_testing import FakeListenerContext, batch_info, receiver_info

T = 1_700_000_000_000
KEY = "spark.streaming.dynamicAllocation."
ON = {f"{KEY}enabled": "true", f"{KEY}scalingInterval": "3s", "spark.executor.cores": "4"}


def managed(**conf: str) -> tuple[FakeListenerContext, ExecutorAllocationManager]:
    """A program of one receiver, on executor 1 of two."""
    context = FakeListenerContext({**ON, **conf}, streams=[0])
    context.infos[0] = receiver_info()
    (manager,) = listeners(context)
    return context, manager


def batch(number: int, took_ms: int | None = None, *, failure: str | None = None) -> BatchInfo:
    """A batch of each second; one that has no duration has not completed."""
    waited_ms = None if took_ms is None else 0
    time = T + 1000 * number
    return batch_info(time, schedulingDelay=waited_ms, processingDelay=took_ms, failureReason=failure)


def run(manager: ExecutorAllocationManager, *took_ms: int | None, first: int = 0, failure: str | None = None) -> None:
    """Submit a batch a second; complete those with a duration before the next is submitted."""
    for number, each in enumerate(took_ms, first):
        manager.onBatchSubmitted(BatchSubmitted(batch(number)))
        if each is not None:
            manager.onBatchCompleted(BatchCompleted(batch(number, each, failure=failure)))


def test_executors_are_requested_under_load_and_released_when_idle() -> None:
    context, manager = managed()
    run(manager, 1000, 1000, 1000, 1)
    assert context.commands == [("request_executors", 1)]
    assert manager.requested == 3
    run(manager, 1, 1, 1, first=4)
    assert context.commands[1:] == [("kill_executor", "3")]


@pytest.mark.parametrize("launching", [{"active": False}, {"executorId": ""}])
def test_no_executor_is_released_while_the_one_of_a_receiver_is_unknown(launching: dict[str, Any]) -> None:
    context, manager = managed(**{"spark.executor.cores": "8"})
    running = context.infos[0]
    context.infos[0] = evolve(running, **launching)
    run(manager, *[1] * 4)
    assert context.commands == []
    context.infos[0] = running
    run(manager, *[1] * 3, first=4)
    assert context.commands == [("kill_executor", "2")]


def test_receiver_that_was_given_up_keeps_no_executor() -> None:
    context, manager = managed()
    context.infos[0] = evolve(context.infos[0], active=False, executorId="", given_up=True)
    run(manager, *[1] * 4)
    assert context.commands == [("kill_executor", "2")]


def test_nothing_is_decided_before_the_interval_has_passed() -> None:
    context, manager = managed()
    run(manager, 5000, 5000, 5000)
    assert context.commands == []


def test_an_unanswered_request_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    context, manager = managed()
    monkeypatch.setattr(FakeListenerContext, "executors", lambda _self: ["1", "2"])
    run(manager, *[1000] * 10)
    assert context.commands == [("request_executors", 1)]


def test_further_request_counts_from_the_executors_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    context, manager = managed()
    monkeypatch.setattr(FakeListenerContext, "executors", lambda _self: ["1", "2"])
    run(manager, *[1000] * 4)
    run(manager, *[2000] * 3, first=4)
    assert context.commands == [("request_executors", 1), ("request_executors", 2)]


def test_release_withdraws_an_unanswered_request(monkeypatch: pytest.MonkeyPatch) -> None:
    context, manager = managed(**{f"{KEY}minExecutors": "1"})
    monkeypatch.setattr(FakeListenerContext, "executors", lambda _self: ["1", "2"])
    run(manager, *[1000] * 3, *[1] * 3, *[1000] * 4)
    assert context.commands == [("request_executors", 1), ("kill_executor", "2"), ("request_executors", 1)]


def test_failed_batches_count_for_nothing() -> None:
    context, manager = managed()
    run(manager, *[5000] * 4, failure="Traceback")
    assert context.commands == []


def test_batches_that_never_complete_request_executors() -> None:
    context, manager = managed()
    run(manager, None, None, None, None)
    assert context.commands == [("request_executors", 3)]


@pytest.mark.parametrize("name", ["minExecutors", "maxExecutors"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_bound_may_be_below_or_above_the_number_of_receivers(name: str, count: int) -> None:
    context = FakeListenerContext({**ON, f"{KEY}{name}": str(count)}, streams=[0, 1])
    assert len(list(listeners(context))) == 1


def test_a_program_that_is_not_configured_has_no_manager() -> None:
    assert listeners(FakeListenerContext({})) == []


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({f"{KEY}minExecutors": "0"}, "minExecutors=0: must be greater than 0"),
        ({f"{KEY}minExecutors": "-1"}, "minExecutors=-1: must be greater than 0"),
        ({f"{KEY}maxExecutors": "0"}, "maxExecutors=0: must be greater than 0"),
        ({f"{KEY}maxExecutors": "-1"}, "maxExecutors=-1: must be greater than 0"),
        ({f"{KEY}minExecutors": "4", f"{KEY}maxExecutors": "3"}, "maxExecutors=3: must be at least minExecutors=4"),
        ({f"{KEY}scalingInterval": "0"}, "scalingInterval='0'"),
        ({f"{KEY}scalingInterval": "-1"}, "scalingInterval='-1'"),
        ({f"{KEY}scalingUpRatio": "0"}, "scalingUpRatio=0.0: must be greater"),
        ({f"{KEY}scalingUpRatio": "-0.1"}, "scalingUpRatio=-0.1: must be greater"),
        ({f"{KEY}scalingDownRatio": "0"}, "scalingDownRatio=0.0: must be greater"),
        ({f"{KEY}scalingDownRatio": "-0.1"}, "scalingDownRatio=-0.1: must be greater"),
        ({f"{KEY}scalingUpRatio": "0.5", f"{KEY}scalingDownRatio": "0.5"}, "must be above scalingDownRatio=0.5"),
        ({f"{KEY}scalingUpRatio": "0.3", f"{KEY}scalingDownRatio": "0.5"}, "must be above scalingDownRatio=0.5"),
        ({f"{KEY}scalingUpRatio": "0.3"}, "must be above scalingDownRatio=0.3"),
        ({f"{KEY}scalingUpRatoi": "0.3"}, "Did you mean 'scalingUpRatio'"),
        ({"spark.dynamicAllocation.enabled": "true"}, "are both true"),
    ],
)
def test_an_invalid_configuration_is_refused(conf: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        managed(**conf)
    assert words in str(refused.value)
