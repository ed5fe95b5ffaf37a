"""``Trigger.AvailableNow``: a query ends with all that was available, or fails, or says that there is more."""

from __future__ import annotations

from typing import Any

import pytest
from plugins.structured.tests.readers import Make, Unstartable, started, values
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.helpers import run_in_background, wait_for

from penstock import PenstockError
from penstock_structured import source_run


def test_available_now_ends_with_what_the_receiver_had_stored_when_it_was_quiet(make: Make) -> None:
    reader = make(quietPeriod=0.05, availableNowTimeout=60.0)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {"block": 1}
    assert reader.latestOffset(end, ReadAllAvailable()) == end

    late = run_in_background(lambda: receiver.store_all(["late"]))
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    reader.stop()
    late.exception(timeout=30)


def test_available_now_fails_after_its_blocks_if_the_receiver_fails_to_the_end(make: Make) -> None:
    reader = make(conf={"spark.streaming.receiverRestartDelay": "60s"}, quietPeriod=600.0, availableNowTimeout=0.05)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    receiver.restart("connection lost", OSError("no route to the source"))
    wait_for(receiver.isStopped, "the stop for the restart")
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert values(reader, start, end) == ["a"]
    with pytest.raises(PenstockError, match=r"'socket' did not run .*availableNowTimeout=0\.05 s.*connection lost"):
        reader.latestOffset(end, ReadAllAvailable())


def test_available_now_fails_if_the_receiver_is_in_back_off_to_the_end(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    conf = {"spark.penstock.receiver.maxRestarts": "1000"}
    reader = make(Unstartable(), conf=conf, quietPeriod=600.0, availableNowTimeout=0.05)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    wait_for(lambda: "relaunch scheduled" in caplog.text, "the back-off")
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(PenstockError, match=r"not all available data may be received: .*no route to the source"):
        reader.latestOffset(start, ReadAllAvailable())


def test_available_now_fails_after_its_blocks_if_the_receiver_was_given_up_meanwhile(make: Make) -> None:
    reader = make(conf={"spark.penstock.receiver.maxRestarts": "0"}, quietPeriod=600.0, availableNowTimeout=600.0)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    receiver.stop("over", OSError("no route to the source"))
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert values(reader, start, end) == ["a"]
    with pytest.raises(PenstockError, match="no route to the source"):
        reader.latestOffset(end, ReadAllAvailable())


def test_a_receiver_that_is_given_up_when_all_was_available_does_not_fail_available_now(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    reader = make(conf={"spark.penstock.receiver.maxRestarts": "0"}, quietPeriod=0.05, availableNowTimeout=60.0)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadAllAvailable())
    receiver.stop("over", OSError("no route to the source"))
    wait_for(lambda: "receiver given up" in caplog.text, "the end of the receiver")
    assert reader.latestOffset(end, ReadAllAvailable()) == end == {"block": 1}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"quietPeriod": 600.0, "availableNowTimeout": 0.01}, "availableNowTimeout"),
        ({"quietPeriod": 0.01, "maxBlocksBytes": 1}, "maxBlocksBytes or full disk"),
    ],
)
def test_available_now_says_when_it_ends_before_a_receiver_that_runs_is_quiet(
    make: Make, caplog: pytest.LogCaptureFixture, options: dict[str, Any], reason: str
) -> None:
    reader = make(**options)
    start, receiver = started(reader)
    receiver.store_all(["a"])
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end == {"block": 1}
    assert "available data not all received" in caplog.text
    assert reason in caplog.text


def test_a_stop_during_the_wait_for_quiet_ends_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = make(quietPeriod=600.0, availableNowTimeout=600.0)
    start, _receiver = started(reader)
    reader.prepareForTriggerAvailableNow()
    monkeypatch.setattr(source_run, "end_reason", lambda: "over")
    assert reader.latestOffset(start, ReadAllAvailable()) == start
