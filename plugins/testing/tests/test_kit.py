"""The conformance kit itself: KK-01 to KK-07."""

from __future__ import annotations

import ast
import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.mutants.mutant import all_mutants, installed_files
from tests.mutants.packaging import REFERENCE, distribution
from tests.mutants.rate_estimator import RESTORES
from tests.mutants.receiver_references import ReplayableReceiver
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

import penstock_testing as testing
from penstock import ConfigurationError
from penstock.spi import LoadedPlugin
from penstock_testing import (
    Capabilities,
    MemoryFeeder,
    Report,
    all_checks,
    check as registry,
    checks_for,
    plugin_probe,
    run_checks,
)
from penstock_testing.check import PINNED, Check, Kind
from penstock_testing.check_report import PAGE
from penstock_testing.checks.receiver_lifecycle import ReceiverLifecycleChecks

_KIT = Path(registry.__file__).parent
_PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"


def test_every_check_has_a_mutant() -> None:  # KK-01
    mutated = {mutant.check for live in (False, True) for mutant in all_mutants(live=live)}
    assert [check.id for check in all_checks().values() if check.id not in mutated] == []


# KK-02, the references pass every check, is tests/mutants/test_mutants.py, and so is KK-05, their budget.


def test_number_of_checks_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:  # KK-03
    assert sum(PINNED.values()) == len(all_checks())
    monkeypatch.delattr(ReceiverLifecycleChecks, "test_RC_06_stop_wakes_a_blocked_read")
    with pytest.raises(RuntimeError, match=f"54 checks of kind receiver; PINNED says {PINNED['receiver']}"):
        all_checks()


def test_report_without_a_pinned_check_fails() -> None:  # KK-03
    checks = checks_for("receiver")
    results = tuple(testing.Result.of(check, "passed") for check in checks)
    assert Report("receiver", "whole", 0, len(checks), results).grade == "hardened"
    shrunk = Report("receiver", "shrunk", 0, len(checks), results[1:])
    assert not shrunk.ok
    assert shrunk.grade == "fails"
    assert f"INCOMPLETE: only {len(checks) - 1} of {len(checks)} checks have run" in shrunk.summary()


def test_summary_names_the_checks_that_failed() -> None:
    checks = checks_for("receiver", ["PK-15", "RC-06"])
    results = (testing.Result.of(checks[0], "failed"), testing.Result.of(checks[1], "passed"))
    assert " 1 failed (PK-15); 2 selected; seed 0." in Report("receiver", "mqtt", 0, None, results).summary()


def test_text_of_a_failure_quotes_code_with_single_backticks() -> None:
    (check,) = checks_for("receiver", ["RC-02"])
    assert "`onStart` returns promptly." in (text := testing.Result.of(check, "failed").text())
    assert "``" not in text


def test_feeder_that_lacks_a_required_option_is_a_failure() -> None:
    assert run_checks("receiver", name="socket", only=["RC-01"])["RC-01"].outcome == "not applicable"
    result = run_checks("receiver", feeder=MemoryFeeder, name="socket", only=["RC-01"])["RC-01"]
    assert result.outcome == "failed"
    assert result.seen == "receiver 'socket' needs the option 'host', and MemoryFeeder gives address"
    assert result.change == "return the receiver's options from MemoryFeeder.options, or set options in the suite"


def test_plugin_that_changes_the_folder_is_not_charged_with_the_files_there() -> None:
    changes = "import os\nos.chdir('/')\n" + REFERENCE
    with installed_files(distribution("kit_folder", changes)):
        result = run_checks("plugin", name="kit_folder", only=["PK-06"])["PK-06"]
    assert result.seen.startswith("after the import, the working directory changed from ")
    assert result.seen.endswith(" to '/'"), result.seen


def test_appended_folder_loads_only_its_own_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loads: list[str] = []
    load = plugin_probe._facts  # its calls are counted

    def counted(plugin: LoadedPlugin, limit_s: float) -> plugin_probe.Facts:
        loads.append(plugin.name)
        return load(plugin, limit_s)

    monkeypatch.setattr(plugin_probe, "_facts", counted)

    def load_all() -> list[str]:
        loads.clear()
        assert all(plugin_probe.probe(plugin, 60).step == "" for plugin in plugin_probe.installed())
        return loads

    load_all()
    with installed_files(distribution("kit_appended")):
        assert load_all() == ["kit_appended"]
    assert load_all() == []
    # What comes first can replace the modules of any plugin.
    monkeypatch.syspath_prepend(tmp_path)
    assert len(load_all()) == len(plugin_probe.installed())


class _HoldsLock(MemoryReceiver):
    def __init__(self, feeder: MemoryFeeder) -> None:
        super().__init__(feeder)
        self.lock = threading.Lock()


def test_receiver_that_cannot_be_pickled_fails_one_check() -> None:
    only = ["PK-12", "PK-13", "RC-02", "RC-10"]
    report = run_checks("receiver", _HoldsLock, MemoryFeeder, only, capabilities=MEMORY_RECEIVER)
    assert [result.outcome for result in report.results] == ["failed", *["not applicable"] * 3]
    assert report["RC-10"].seen == "the receiver cannot be pickled: see PK-12"


def test_failure_is_reported_where_python_cannot_parse_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_arguments: object, **_options: object) -> ast.AST:
        raise SystemError("AST constructor recursion depth mismatch (before=150, after=55)")

    with monkeypatch.context() as patch:
        patch.setattr("_pytest._code.source.ast.parse", parse)
        report = run_checks("receiver", _HoldsLock, MemoryFeeder, ["PK-12"], capabilities=MEMORY_RECEIVER)
    assert report["PK-12"].outcome == "failed"
    assert "cannot be pickled" in report["PK-12"].seen


class _Refuses(MemoryReceiver):
    def receive(self) -> None:
        self.stop("no such topic")


def test_failure_says_why_the_receiver_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.1")
    report = run_checks("receiver", _Refuses, MemoryFeeder, ["PK-13", "RC-31"], capabilities=MEMORY_RECEIVER)
    assert "neither of two receivers stores a record of its source; reported errors: []" in report["PK-13"].seen
    assert report["PK-13"].change == "make one receiver store records first: see RC-10"
    assert "the receiver has ended: no such topic" in report["PK-13"].seen


@pytest.mark.parametrize("check", [pytest.param(check, id=check.id) for check in all_checks().values()])
def test_check_is_documented(check: Check) -> None:  # KK-04
    assert check.rule.endswith(".")
    sections = re.findall(
        r"^(Purpose|Condition): (.*(?:\n    .*)*)", inspect.getdoc(check.function) or "", re.MULTILINE
    )
    assert [name for name, text in sections if text.endswith(".")] == ["Purpose", "Condition"]
    assert check.change
    page = _PAGE.read_text(encoding="utf-8")
    assert f"\n| {check.id} `{check.name}` |" in page
    assert page.startswith(f"# {PAGE}\n")


def test_nothing_in_the_kit_sleeps() -> None:  # KK-06
    calls = {
        f"{file.name}:{node.lineno}"
        for file in _KIT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr == "sleep")
        or (isinstance(node, ast.alias | ast.Name) and getattr(node, "name", getattr(node, "id", "")) == "sleep")
    }
    assert calls == set()


def _without_times(report: Report) -> list[tuple[str, ...]]:
    return [(result.id, result.outcome, result.seen, result.smallest) for result in report.results]


def test_same_seed_gives_the_same_report() -> None:  # KK-07
    only = ["RE-01", "RE-02", "RE-10", "RE-21"]
    for make in (SteadyEstimator, _broken_estimator):
        first, second = (
            _without_times(run_checks("rate-estimator", make, only=only, seed=7, capabilities=RESTORES))
            for _ in range(2)
        )
        assert first == second
    receiver = [
        _without_times(run_checks("receiver", MemoryReceiver, MemoryFeeder, ["RC-10"], capabilities=MEMORY_RECEIVER))
        for _ in range(2)
    ]
    assert receiver[0] == receiver[1]


def _broken_estimator(batch_interval_ms: int) -> SteadyEstimator:
    class Broken(SteadyEstimator):
        def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
            rate = super().compute(time, numElements, processingDelay, schedulingDelay)
            return -1.0 if processingDelay % 7 == 3 else rate

    return Broken(batch_interval_ms)


# -- mistakes of a suite --


@pytest.mark.parametrize("text", ["slow", "0", "-1"])
def test_invalid_scale_of_the_deadlines_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SCALE", text)
    with pytest.raises(ValueError, match=f"PENSTOCK_TEST_SCALE='{text}': must be a number above 0, a factor for all"):
        registry.scale()


def test_kind_without_checks_and_suite_without_make_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no kind 'sink' of plugin has checks; these have: .*receiver"):
        run_checks("sink", SteadyEstimator)
    with pytest.raises(ConfigurationError, match="a receiver suite needs make: a function that returns a new instance"):
        run_checks("receiver")


def test_check_has_documentation_and_its_id_in_its_name() -> None:
    def test_RC_99_undocumented() -> None: ...

    def misnamed() -> None:
        """Documented."""

    for function in (test_RC_99_undocumented, misnamed):
        with pytest.raises(ValueError, match="check RC-99: its method needs documentation, and a name"):
            registry.check("RC-99", "must", change="do it")(function)


def _raises(*_arguments: object) -> None:
    raise ZeroDivisionError("by records")


@pytest.mark.parametrize(
    ("kind", "make", "check", "seen"),
    [
        ("rate-estimator", _raises, "RE-01", "make raised ZeroDivisionError: by records"),
        ("listener", _raises, "LI-01", "make raised ZeroDivisionError: by records"),
        ("listener", lambda _context: [], "LI-01", "make returned no listener"),
        ("listener", lambda _context: [object()], "LI-01", "the listener object has none of the callbacks"),
        ("receiver", lambda _feeder: 5, "RC-02", "make returned a int"),
        ("block-store", lambda _folder: object(), "BS-01", "object does not implement the hook store"),
    ],
)
def test_make_without_a_plugin_fails_the_check_with_what_it_gave(
    kind: Kind, make: Callable[..., Any], check: str, seen: str
) -> None:
    result = run_checks(kind, make, MemoryFeeder if kind == "receiver" else None, [check])[check]
    assert result.outcome == "failed"
    assert seen in result.seen


def test_replayable_receiver_whose_make_takes_no_position_fails() -> None:
    def make(feeder: MemoryFeeder) -> ReplayableReceiver:
        return ReplayableReceiver(feeder)

    replayable = Capabilities(replayable=True)
    result = run_checks("receiver", make, MemoryFeeder, ["RC-36"], capabilities=replayable)["RC-36"]
    assert result.seen == "make has no argument position, and Capabilities.replayable is set"
    assert result.change.startswith("declare make(feeder, position=None)")


def test_expected_failure_that_passes_is_a_failure() -> None:
    report = run_checks("rate-estimator", SteadyEstimator, only=["RE-01"], expected_failures={"RE-01": "a bug"})
    result = report["RE-01"]
    assert (result.outcome, result.change) == ("failed", "remove RE-01 from expected_failures")
    assert result.seen == "the check passes, although expected_failures lists it: a bug"
