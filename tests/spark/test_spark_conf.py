"""The configuration of a SparkContext is read whole, and with few calls of the JVM."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark import SparkConf, SparkContext
from tests.helpers.own_conf import own_conf

from penstock.spark.spark_conf import conf_of, entries_of

ENTRIES = {"spark.a": "a,b\n(c),(d,e)", "spark.none": "", "spark.secret.password": "hush", "spark.ä": "\x1e\0"}
# A copy takes four for each of the entries.
MOST_CALLS = 15


@pytest.mark.spark
def test_entries_in_the_jvm_are_read_with_few_calls(sc: SparkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {f"spark.more.{number}": str(number) for number in range(50)}
    conf = SparkConf(loadDefaults=False).setAll([*ENTRIES.items(), *more.items()])
    monkeypatch.setattr(sc, "_conf", conf)
    calls: list[str] = []
    send, thread = ClientServerConnection.send_command, threading.current_thread()

    def noted(connection: Any, command: str) -> Any:
        # The release of objects is not among them.
        if threading.current_thread() is thread and not command.startswith("m\n"):
            calls.append(command)
        return send(connection, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    found = entries_of(sc)
    assert 0 < len(calls) <= MOST_CALLS
    assert found == {**ENTRIES, **more}
    assert conf_of(sc) is conf
    monkeypatch.setattr(sc, "_conf", SparkConf(loadDefaults=False))
    assert entries_of(sc) == {}


def test_entries_in_python_are_read_as_they_are() -> None:
    sc = cast(SparkContext, SimpleNamespace(_conf=own_conf(ENTRIES.items())))
    assert entries_of(sc) == ENTRIES


def test_without_pysparks_own_attribute_the_public_copy_is_read() -> None:
    sc = cast(SparkContext, SimpleNamespace(getConf=lambda: own_conf(ENTRIES.items())))
    assert entries_of(sc) == ENTRIES
    assert conf_of(sc).get("spark.a") == ENTRIES["spark.a"]
