"""``Keepalive``: requests every half interval, and the end of a connection on which nothing comes."""

from __future__ import annotations

import pytest

from penstock_mqtt.keepalive import Keepalive


def test_a_request_is_due_every_half_interval() -> None:
    keepalive = Keepalive("broker", 10, 100.0)
    due = []
    for now_s in range(100, 121):
        keepalive.hear()
        if keepalive.is_due(now_s):
            due.append(now_s)
    assert due == [105, 110, 115, 120]


def test_a_broker_that_is_silent_for_an_interval_after_a_request_is_gone() -> None:
    keepalive = Keepalive("MQTT broker a:1", 10, 0.0)
    assert keepalive.is_due(5.0)
    # Later requests do not prolong the wait.
    assert keepalive.is_due(10.0)
    assert not keepalive.is_due(14.9)
    with pytest.raises(TimeoutError, match="MQTT broker a:1 has not answered a keepalive within 10 s"):
        keepalive.is_due(15.0)


def test_anything_that_comes_is_an_answer() -> None:
    keepalive = Keepalive("broker", 10, 0.0)
    assert keepalive.is_due(5.0)
    keepalive.hear()
    assert keepalive.is_due(15.0)
    assert keepalive.is_due(24.9)


def test_a_client_that_did_not_run_for_long_waits_for_its_next_answer() -> None:
    keepalive = Keepalive("broker", 10, 0.0)
    assert keepalive.is_due(1000.0)
    assert not keepalive.is_due(1004.0)
