"""The whole zoo, installed beside good plugins, in one process that loads and uses them as a driver does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from tests.badplugins.zoo import FATAL, FAULTY, LATE, SPOILERS, Zoo

from penstock.plugins.discovery import LoadedPlugin
from penstock_testing.plugin_probe import probe

PROGRAM = """
import json, logging, sys
logging.basicConfig(format="%(message)s")

from penstock.errors import summary_of
from penstock.listen.events import BatchCompleted
from penstock.listen.listener_bus import ListenerBus
from penstock.plugins.discovery import Plugins

plugins = Plugins()
bus = ListenerBus(queue_size=100, max_failures=3)
for listener in plugins.listeners("context"):
    bus.add(listener)
bus.start()
for number in range(10):
    bus.post(BatchCompleted(number))
bus.stop(30)
uses = {}
for name, spec in plugins.specs("receivers").items():
    if spec.options is None:
        try:
            uses[name] = repr(spec.factory())
        except Exception as error:
            uses[name] = summary_of(error)
known = {name: module for name, module in sys.modules.items() if name.startswith("zoo_")}
heard = {name: len(module.heard) for name, module in known.items() if hasattr(module, "heard")}
faults = {each.origin: each.fault for each in plugins.loaded}
print(json.dumps({"faults": faults, "uses": uses, "heard": list(heard.values()),
    "left_registered": [each.origin for each in plugins.loaded
        if each.fault and each.plugin is not None and plugins.manager.is_registered(each.plugin)]}))
"""


@frozen
class Ended:
    """What the program printed."""

    faults: dict[str, str]
    uses: dict[str, str]
    heard: list[int]
    left_registered: list[str]
    log: str


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("zoo")
    Zoo(folder).add_all()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    printed: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return Ended(**printed, log=ended.stderr)


def _line(log: str, *parts: str) -> str:
    return next((line for line in log.splitlines() if all(part in line for part in parts)), "")


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_plugin_is_left_out_and_logged_with_its_reason(driver: Ended, name: str) -> None:
    origin = f"{name} (bad-{name} 2.5)"
    assert FAULTY[name].words in driver.faults[origin]
    assert _line(driver.log, "plugin left out", origin)


def test_namesake_of_a_good_plugin_is_used_beside_it(driver: Ended) -> None:
    assert driver.faults["aaa (namesake 2.5)"] == ""
    assert (driver.uses["namesake"], driver.uses["aaa-receiver"]) == ("{}", "{}")


def test_name_that_a_rival_offers_too_is_refused_and_logged(driver: Ended) -> None:
    assert [driver.faults[origin] for origin in ("rival (rival 2.5)", "zzz (good-zzz 1.0)")] == ["", ""]
    assert _line(driver.log, "name offered by several plugins", "rival (rival 2.5) and zzz (good-zzz 1.0)")
    assert driver.uses["rival"] == "{}"
    assert "zzz-receiver" not in driver.uses


def test_plugin_that_was_left_out_is_not_registered(driver: Ended) -> None:
    assert driver.left_registered == []


@pytest.mark.parametrize("name", [name for name in LATE if name.startswith("listener")])
def test_bad_listener_is_left_out_or_disabled_and_logged_with_its_reason(driver: Ended, name: str) -> None:
    origin = f"{name} (bad-{name} 2.5)"
    assert driver.faults[origin] == ""
    # Listeners have threads of their own: a line of another may come before the traceback.
    assert any(LATE[name].words in after for after in driver.log.split(origin)[1:])


@pytest.mark.parametrize("name", ["factory-raises", "constructor-raises"])
def test_factory_that_raises_concerns_its_own_receiver_only(driver: Ended, name: str) -> None:
    assert LATE[name].words in driver.uses[name]


def test_good_plugins_are_offered_and_used(driver: Ended) -> None:
    assert [driver.faults[f"{name} (good-{name} 1.0)"] for name in ("aaa", "zzz")] == ["", ""]
    assert driver.uses["aaa-receiver"] == "{}"
    assert driver.heard == [10, 10]
    assert driver.faults["prints-on-import (bad-prints-on-import 2.5)"] == ""


@pytest.mark.parametrize("name", FATAL)
def test_probe_reports_a_plugin_that_ends_or_blocks_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    zoo = Zoo(tmp_path)
    zoo.add_bad(name)
    zoo.add_good("good")
    first, second = map(LoadedPlugin.of, zoo.entry_points)
    bad, good = probe(first, limit_s=0.3 if name == "hangs-on-import" else 30), probe(second, limit_s=30)
    assert (bad.step, good.step) == ("import", "")
    assert FATAL[name].words in bad.fault
    assert good.offers == (("receiver", "good-receiver"),)


@pytest.mark.parametrize("name", SPOILERS)
def test_probe_reports_a_plugin_that_changes_global_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    zoo = Zoo(tmp_path)
    zoo.add_bad(name)
    (spoiler,) = map(LoadedPlugin.of, zoo.entry_points)
    facts = probe(spoiler, limit_s=30)
    assert [effect for effect in facts.side_effects if SPOILERS[name].words in effect]
