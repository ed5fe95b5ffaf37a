"""The README of penstock-rate: its tables equal the code's options, and its example estimator works."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from pathlib import Path

import pytest

import penstock_rate
from penstock.plugins.discovery import Plugins
from penstock.plugins.specs import Option, RateEstimator, RateEstimatorSpec
from penstock.rate.guarded_estimator import GuardedEstimator
from penstock_testing.workload import WORKLOADS
from penstock_testing.workload_report import report
from penstock_testing.workload_run import simulate

README = (Path(__file__).parents[2] / "plugins/rate/README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (source,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return str(source)


@pytest.fixture
def aimd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RateEstimatorSpec:
    (tmp_path / "penstock_aimd.py").write_text(block("python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "penstock_aimd", raising=False)
    # As `penstock plugins new` writes it, which the README tells to run.
    entry_points = [importlib.metadata.EntryPoint("aimd", "penstock_aimd", "penstock")]
    spec = Plugins(strict=True, entry_points=entry_points).spec("rate_estimators", "aimd")
    assert isinstance(spec, RateEstimatorSpec)
    return spec


def test_readme_lists_every_option_as_in_the_code() -> None:
    specs = penstock_rate.rate_estimators()
    assert [spec.name for spec in specs] == ["pid", "fixed", "model"]
    for spec in specs:
        assert f"| `{spec.name}` |" in README
        for option in Option.of(spec.options):
            default = "(required)" if option.default is None else f"`{option.default}`"
            assert option.help
            assert f"| `{spec.name}` | `{option.name}` | {default} | {option.help} |" in README


def test_readme_entry_point_names_the_estimator() -> None:
    own = [
        entry_point for entry_point in importlib.metadata.entry_points(group="penstock") if entry_point.name == "rate"
    ]
    assert sorted(Plugins(strict=True, entry_points=own).specs("rate_estimators")) == ["fixed", "model", "pid"]


def test_readme_estimator_is_short() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) < 30


def test_readme_estimator_controls_a_workload(aimd: RateEstimatorSpec) -> None:
    options = aimd.read_options({"step": "300"})
    estimator = aimd.factory(options, 1000)
    assert isinstance(estimator, RateEstimator)
    run = simulate(WORKLOADS["step-down"], lambda interval_ms: aimd.factory(options, interval_ms))
    said = report(run)
    assert said.stable
    assert said.used > 0.7
    assert run.reasons[-1] in {"late: less by 30 %", "in time: a step more"}


def test_readme_estimator_continues_from_saved_state(aimd: RateEstimatorSpec) -> None:
    options = aimd.read_options({})
    before, after = (GuardedEstimator(aimd.factory(options, 1000)) for _ in range(2))
    assert [before.compute(1000 * number, 10, 500, 0) for number in range(1, 4)] == [400, 600, 800]
    assert after.restore(json.loads(json.dumps(before.saved_state())))
    assert after.compute(4000, 10, 500, 0) == 1000
