"""`penstock conf`: keys are listed and explained, and what is wrong with a file is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console

from penstock.spi import KEYS

Cli = Callable[..., Result]
Install = Callable[[str, str], None]

PLUGIN = """
from attrs import define, field
from attrs.validators import le
from penstock import RateEstimatorSpec, ReceiverSpec, hookimpl

@define
class Options:
    depth: int = field(metadata={"help": "how deep"})
    lid: bool = True
    rim: str = "round"
    width: float | None = None
    key: int = field(default=1, repr=False)

@define
class Level:
    level: float

@define
class Seen:
    every: int = field(default=10, validator=le(100))

penstock_options = {"spark.penstock.acme.": Seen}
penstock_production = {"spark.streaming.backpressure.rateEstimator": "best"}

@hookimpl
def receivers():
    return [ReceiverSpec("well", lambda options: None, Options, "water")]

@hookimpl
def rate_estimators():
    return [RateEstimatorSpec("same", lambda options, interval: None, Level)]

@hookimpl
def listeners(context):
    return []
"""


@pytest.fixture(autouse=True)
def a_plugin(install: Install) -> None:
    install("acme", PLUGIN)


@pytest.fixture
def check(cli: Cli, tmp_path: Path) -> Callable[[str], Result]:
    """Checks a file with this text."""

    def run(text: str, *arguments: str) -> Result:
        file = tmp_path / "mine.conf"
        file.write_text(text)
        return cli("conf", "check", str(file), *arguments)

    return run


def test_list_has_every_key_of_the_core_and_of_plugins(cli: Cli) -> None:
    listed = {key["name"]: key for key in json.loads(cli("conf", "list", "--json").stdout)}
    assert {key.name for key in KEYS.values()} < listed.keys()
    assert listed["spark.penstock.receiver.well.depth"] == {
        "name": "spark.penstock.receiver.well.depth",
        "type": "integer",
        "default": None,
        "group": "receiver well",
        "meaning": "how deep",
        "in_production": None,
    }
    assert {"spark.streaming.backpressure.same.level", "spark.penstock.acme.every"} < listed.keys()


def test_list_is_filtered_by_text_and_group(cli: Cli) -> None:
    assert [key["name"] for key in json.loads(cli("conf", "list", "how DEEP", "--json").stdout)] == [
        "spark.penstock.receiver.well.depth"
    ]
    groups = {key["group"] for key in json.loads(cli("conf", "list", "--group", "rate", "--json").stdout)}
    assert groups == {"rate"}
    assert "spark.streaming.receiver.maxRate" in cli("conf", "list", "maxrate").stdout
    assert "penstock conf list shows all" in cli("conf", "list", "no such words").stdout
    assert "Did you mean 'rate'?" in cli("conf", "list", "--group", "rte").stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("spark.streaming.blockInterval", ["type     time > 0", "default  200ms", "group    inputs"]),
        ("spark.penstock.receiver.burst", ["default  the value of spark.streaming.blockInterval"]),
        ("spark.penstock.receiver.well.depth", ["default  required", "group    receiver well", "meaning  how deep"]),
        ("spark.penstock.receiver.well.lid", ["default  true"]),
        ("spark.penstock.receiver.well.rim", ["default  round"]),
        ("spark.penstock.receiver.well.width", ["default  (empty)"]),
        ("spark.penstock.receiver.well.key", ["default  (hidden)"]),
        ("spark.penstock.log.level.stats", ["type     log level", "default  the value of spark.penstock.log.level"]),
        ("spark.streaming.kafka.maxRatePerPartition", ["Penstock ignores this key of Spark", "receiver plugin"]),
        ("spark.streaming.checkpoint.directory", ["default  (empty)"]),
        ("spark.penstock.checkpoint.rebuild", ["default  false, in production true"]),
        ("spark.streaming.backpressure.rateEstimator", ["default  pid, in production best"]),
    ],
)
def test_key_is_explained(cli: Cli, name: str, words: list[str]) -> None:
    result = cli("conf", "explain", name)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == name
    for word in words:
        assert word in result.stdout
    assert json.loads(cli("conf", "explain", name, "--json").stdout)["name"] == name


def test_explanation_is_folded_at_the_width_of_the_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock_cli.conf.terminal", lambda: Console(width=50))
    lines = cli("conf", "explain", "spark.streaming.receiver.writeAheadLog.enable").stdout.splitlines()
    meaning = next(number for number, line in enumerate(lines) if line.startswith("  meaning  "))
    folded = [line[11:].rstrip() for line in lines[meaning:]]
    assert len(folded) > 2
    assert " ".join(folded) == KEYS["wal_enabled"].help


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("blockInterval", "Did you mean spark.streaming.blockInterval?"),
        ("spark.streaming.blokInterval", "Did you mean spark.streaming.blockInterval"),
        ("zzz", "unknown configuration key 'zzz'. penstock conf list shows all keys"),
        ("spark.executor.memory", "Penstock does not read it; Spark's documentation explains Spark's own keys"),
    ],
)
def test_unknown_key_is_refused_with_the_nearest(cli: Cli, name: str, near: str) -> None:
    result = cli("conf", "explain", name)
    assert result.exit_code == 1
    assert near in result.stderr


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        (
            "spark.streaming.blockIntervall 1s",
            "warn",
            "→ did you mean spark.streaming.blockInterval?",
        ),
        ("spark.streaming.kafka.x=1", "warn", "ignored by Penstock\n      → Penstock has no direct Kafka stream"),
        ("spark.streaming.blockInterval soon", "fail", "spark.streaming.blockInterval=soon is not a whole number"),
        ("spark.penstock.receiver.well.key secret", "fail", "spark.penstock.receiver.well.key=(hidden) is not a whole"),
        ("spark.penstock.acme.every 101", "fail", "'spark.penstock.acme.every' must be <= 100: 101"),
        ("master local[4]", "warn", "master: Spark drops keys that do not begin with spark."),
    ],
)
def test_problem_is_found_in_its_line(check: Callable[..., Result], line: str, level: str, text: str) -> None:
    result = check(f"# a comment\n\nspark.executor.memory 1g\n{line}\n")
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith(f"{level}  ")
    assert "mine.conf:4: " in first
    assert text in result.stdout
    assert "secret" not in result.stdout
    assert "\n1 problem: " in result.stdout


def test_all_problems_of_a_file_are_found_at_once(check: Callable[..., Result]) -> None:
    result = check(
        "spark.penstock.log.level INFO\nspark.penstock.log.level.stats loud\nspark.penstock.partition.minBytes 1g\n"
        "spark.penstock.maxFailedBatch 1\nspark.penstock.receiver.well.dept 1\n",
        "--json",
    )
    assert [(problem["line"], problem["is_error"]) for problem in json.loads(result.stdout)] == [
        (2, True),
        (3, True),
        (4, False),
        (5, False),
    ]


def test_required_options_of_the_chosen_estimator_must_be_configured(check: Callable[..., Result]) -> None:
    chosen = "spark.streaming.backpressure.enabled true\nspark.streaming.backpressure.rateEstimator "
    assert "needs the option 'level': set spark.streaming.backpressure.same.level" in check(f"{chosen}same").stdout
    assert "Did you mean 'same'?" in check(f"{chosen}smae").stdout
    assert check(f"{chosen}same\nspark.streaming.backpressure.same.level 5").exit_code == 0


def test_sound_file_passes(check: Callable[..., Result]) -> None:
    result = check("spark.streaming.blockInterval: 1s\nspark.master=local[2]\nspark.penstock.receiver.well.lid false\n")
    assert (result.exit_code, result.stdout) == (0, "ok: 2 keys of Penstock checked, 1 of Spark not\n")
    assert json.loads(check("", "--json").stdout) == []


def test_key_that_is_set_twice_is_found(check: Callable[..., Result]) -> None:
    (problem,) = json.loads(check("spark.x 1\nspark.x 2\n", "--json").stdout)
    assert problem == {
        "key": "spark.x",
        "is_error": False,
        "text": "spark.x: also set in line 1; the last line counts",
        "remedy": "",
        "line": 2,
    }


def test_configuration_here_and_of_the_command_line_is_checked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("conf", "check").stdout == "ok: no configuration is set here\n"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.streaming.blockInterval=soon pyspark-shell")
    result = cli("conf", "check", "--conf", "spark.penstock.maxFailedBatches=-1")
    assert "spark.streaming.blockInterval=soon" in result.stdout
    assert "spark.penstock.maxFailedBatches=-1 is negative" in result.stdout
    assert result.exit_code == 1


def test_missing_file_is_a_usage_error(cli: Cli) -> None:
    assert cli("conf", "check", "/no/such.conf").exit_code == 2
