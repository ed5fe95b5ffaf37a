"""`penstock rate simulate`: charts, the table, the drawing, and refused arguments."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from penstock_testing.workload import WORKLOADS

Cli = Callable[..., Result]
Install = Callable[[str, str], None]

ESTIMATORS = """
from attrs import define
from penstock import RateEstimator, RateEstimatorSpec, hookimpl

class Same(RateEstimator):
    reason = "it is always the same"
    def __init__(self, options, batch_interval_ms):
        self.initial_rate = options.level
    def compute(self, time, numElements, processingDelay, schedulingDelay):
        return self.initial_rate

class Wrong(RateEstimator):
    def __init__(self, options, batch_interval_ms): pass
    def compute(self, time, numElements, processingDelay, schedulingDelay):
        return float("nan")

@define
class Options:
    level: float

@hookimpl
def rate_estimators():
    return [RateEstimatorSpec("same", Same, Options), RateEstimatorSpec("wrong", Wrong)]
"""
LEVEL = "spark.streaming.backpressure.same.level=8000"


def test_run_is_shown_as_charts_and_measures(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    result = cli("rate", "simulate", "--estimator", "same", "--workload", "steady", "--conf", LEVEL)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "same on steady: 10,000/s, twice as much offered"
    assert "limit, records/s (workload capacity 9,500)" in lines
    assert "processing delay, batch intervals" in lines
    assert "scheduling delay, batch intervals" in lines
    assert any("█" in line for line in lines)
    assert "200 batches every 1,000 ms: settled after 0 batches, stable" in lines
    assert lines[-1] == "last decision: it is always the same"
    assert max(map(len, lines)) <= 120


def test_run_is_json_for_scripts(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    report = json.loads(cli("rate", "simulate", "--estimator", "same", "--conf", LEVEL, "--json").stdout)
    assert (report["estimator"], report["workload"], report["stable"]) == ("same", "steady", True)
    assert len(report["batches"]) == 200
    assert report["batches"][-1]["rates"] == [8000.0]


def test_comparison_is_json_for_scripts(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    result = cli("rate", "simulate", "--all", "--json")
    assert [(report["workload"], report["estimator"]) for report in json.loads(result.stdout)] == [
        (workload, "wrong") for workload in WORKLOADS
    ]
    assert "left out: rate estimator 'same' needs the option 'level'" in result.stderr


def test_every_stream_has_a_chart(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    said = cli("rate", "simulate", "--estimator", "same", "--workload", "two-streams", "--conf", LEVEL).stdout
    assert "limit of stream 0" in said
    assert "limit of stream 1" in said
    assert "unstable" in said


def test_invalid_estimates_are_reported(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    said = cli("rate", "simulate", "--estimator", "wrong", "--workload", "small-capacity").stdout
    assert "invalid estimates" in said
    assert "never settled" in said


def test_run_follows_from_the_seed(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)

    def said(*seed: str) -> str:
        return cli("rate", "simulate", "--estimator", "same", "--workload", "pauses", "--conf", LEVEL, *seed).stdout

    assert said("--seed", "3") == said("--seed", "3")
    assert said() == said("--seed", "1") != said("--seed", "2")


def test_drawing_is_svg_with_a_title(cli: Cli, install: Install, tmp_path: Path) -> None:
    install("acme", ESTIMATORS)
    file = tmp_path / "run.svg"
    for workload in ("two-streams", "idle-then-burst"):
        estimator = ("same", "--conf", LEVEL) if workload == "two-streams" else ("wrong",)
        assert (
            cli("rate", "simulate", "--workload", workload, "--svg", str(file), "--estimator", *estimator).exit_code
            == 0
        )
        svg = ET.fromstring(file.read_text(encoding="utf-8"))
        (title,) = svg.iter("{http://www.w3.org/2000/svg}title")
        assert title.text == f"{estimator[0]} on {workload}: {WORKLOADS[workload].summary}"
        paths = [path.get("d") or "" for path in svg.iter("{http://www.w3.org/2000/svg}path")]
        # Limits, capacity, processing delay, the interval, scheduling delay.
        assert len(paths) == 4 + len(WORKLOADS[workload].sources)
        assert not any("nan" in path or "inf" in path for path in paths)


def test_table_compares_every_estimator_on_every_workload(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    result = cli("rate", "simulate", "--all", "--conf", LEVEL)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert sum(row[:2] == [workload, "same"] for row in rows for workload in WORKLOADS) == len(WORKLOADS)
    assert sum(row[:1] == ["wrong"] for row in rows) == len(WORKLOADS)
    assert "left out" not in result.stdout


def test_estimator_without_required_option_is_left_out_of_the_table_and_named(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    said = cli("rate", "simulate", "--all").stdout
    assert (
        said.splitlines()[-1]
        == "left out: rate estimator 'same' needs the option 'level': set spark.streaming.backpressure.same.level"
    )
    assert "wrong" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--estimator", "sane"), 1, "unknown rate estimator 'sane'. Did you mean 'same'? Known: same, wrong."),
        (
            ("--estimator", "wrong", "--workload", "stedy"),
            1,
            "unknown workload 'stedy'. Did you mean 'steady'? Known: below-one,",
        ),
        (("--estimator", "same"), 1, "rate estimator 'same' needs the option 'level'"),
        (("--estimator", "same", "--conf", "level=1"), 2, "must be spark.KEY=VALUE"),
        (("--all", "--workload", "steady"), 2, "--all cannot be combined with --workload"),
        (("--all", "--svg", "x.svg"), 2, "--all cannot be combined with --svg"),
        (("--estimator", "wrong", "--svg", "/no/such/folder/x.svg"), 1, "No such file or directory"),
        (("--estimator", "wrong", "--svg", "x.png"), 2, "'x.png' does not end in .svg"),
        (
            ("--estimator", "wrong", "--conf", "spark.streaming.backpressure.same.levle=1"),
            1,
            "unknown configuration key 'spark.streaming.backpressure.same.levle'. Did you mean "
            "'spark.streaming.backpressure.same.level'?",
        ),
        (
            ("--estimator", "wrong", "--conf", "spark.streaming.backpressure.initialrate=1"),
            1,
            "Did you mean 'spark.streaming.backpressure.initialRate'?",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    cli: Cli, install: Install, arguments: tuple[str, ...], code: int, words: str
) -> None:
    install("acme", ESTIMATORS)
    result = cli("rate", "simulate", *arguments)
    assert result.exit_code == code
    assert words in result.stderr


def test_help_names_the_workloads(cli: Cli) -> None:
    said = re.sub(r"-\s+", "-", cli("rate", "simulate", "--help").stdout)
    for workload in WORKLOADS:
        assert workload in said
    assert "simulate" in cli("rate", "--help").stdout
    assert "rate" in cli("--help").stdout


FAULTY = """
from penstock import RateEstimator, RateEstimatorSpec, hookimpl

def spec(name, **members):
    members.setdefault("compute", lambda self, *batch: 5000.0)
    kind = type(name, (RateEstimator,), {"__init__": lambda self, options, interval: None, **members})
    return RateEstimatorSpec(name, kind)

def raising(self, *batch):
    raise ZeroDivisionError("by records")

def unmade(options, interval):
    raise KeyError("lid")

@hookimpl
def rate_estimators():
    return [
        spec("raising", compute=raising),
        spec("text", compute=lambda self, *batch: "many"),
        spec("huge", compute=lambda self, *batch: 10 ** 400),
        spec("no-number", initial_rate=float("nan")),
        spec("no-rate", initial_rate="fast"),
        spec("no-reason", reason=property(raising)),
        RateEstimatorSpec("no-compute", lambda options, interval: object()),
        RateEstimatorSpec("unmade", unmade),
    ]
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raising", " errors"),
        ("text", "invalid estimates"),
        ("huge", "invalid estimates"),
        ("no-number", "batches every"),
        ("no-rate", "batches every"),
        ("no-reason", " errors"),
    ],
)
def test_failing_estimator_does_not_end_the_simulation(cli: Cli, install: Install, name: str, words: str) -> None:
    install("acme", FAULTY)
    result = cli("rate", "simulate", "--estimator", name)
    assert result.exit_code == 0
    assert words in result.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-compute", "its factory returned an instance of object, which does not derive"),
        ("unmade", "cannot be created: KeyError"),
    ],
)
def test_estimator_that_cannot_be_created_is_an_error(cli: Cli, install: Install, name: str, words: str) -> None:
    install("acme", FAULTY)
    result = cli("rate", "simulate", "--estimator", name)
    assert (result.exit_code, words in result.stderr) == (1, True)


def test_table_names_estimators_that_fail_or_cannot_be_created(cli: Cli, install: Install) -> None:
    install("acme", FAULTY)
    table = cli("rate", "simulate", "--all")
    assert table.exit_code == 0
    assert "left out: rate estimator 'no-compute'" in table.stdout
    assert "left out: rate estimator 'unmade'" in table.stdout
    assert "rate estimator 'raising' raised" in table.stdout


def test_configured_initial_rate_is_used(cli: Cli, install: Install, tmp_path: Path) -> None:
    install("acme", ESTIMATORS)

    def drawn(*conf: str) -> str:
        file = tmp_path / "run.svg"
        assert cli("rate", "simulate", "--estimator", "wrong", "--svg", str(file), *conf).exit_code == 0
        return file.read_text(encoding="utf-8")

    # It never says a rate, so that the first one stays.
    assert drawn() != drawn("--conf", "spark.streaming.backpressure.initialRate=3000")


def test_infinite_limits_can_be_drawn(cli: Cli, install: Install, tmp_path: Path) -> None:
    install("acme", ESTIMATORS)
    file = tmp_path / "run.svg"
    level = "spark.streaming.backpressure.same.level=1e308"
    result = cli(
        "rate", "simulate", "--estimator", "same", "--workload", "two-streams", "--conf", level, "--svg", str(file)
    )
    assert result.exit_code == 0
    text = file.read_text(encoding="utf-8")
    assert "nan" not in text
    assert "inf" not in text.replace("infin", "")
    # Which curve is whose.
    assert "stream 0</tspan>" in text
    assert "stream 1</tspan>" in text


def test_former_name_of_the_workload_option_is_accepted_but_not_shown(cli: Cli, install: Install) -> None:
    install("acme", ESTIMATORS)
    result = cli("rate", "simulate", "--estimator", "same", "--plant", "idle-then-burst", "--json", "--conf", LEVEL)
    assert json.loads(result.stdout)["workload"] == "idle-then-burst"
    assert "--plant" not in cli("rate", "simulate", "--help").stdout
