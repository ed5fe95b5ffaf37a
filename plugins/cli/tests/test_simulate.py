"""`penstock simulate`: many seeds, one seed with its history, and refused arguments."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

import penstock_testing
from penstock_testing import FAULTS, SimulationOutcome

Cli = Callable[..., Result]


class OneBroken:
    """Stands in for a simulation: seed 3 breaks a guarantee."""

    def __init__(self, seed: int, faults: tuple[str, ...] | None) -> None:
        self.seed = seed
        self.faults = dict.fromkeys(faults or ("kill", "wire"), 2)

    def run(self) -> SimulationOutcome:
        violations = ("1 record lost",) if self.seed == 3 else ()
        return SimulationOutcome(self.seed, self.faults, violations, (f"history of {self.seed}",), 10.0, 100)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(penstock_testing, "Simulation", OneBroken, raising=False)


def test_one_seed_runs_the_engine_and_prints_its_history(cli: Cli) -> None:
    result = cli("simulate", "--seed", "0", "--faults", "kill")
    assert result.exit_code == 0, result.output
    assert "seed 0, faults: kill" in result.output
    assert "streaming started" in result.output
    assert "No guarantee was broken." in result.output


@pytest.mark.usefixtures("simulated")
def test_seeds_without_violation(cli: Cli) -> None:
    result = cli("simulate", "--seeds", "3")
    assert result.exit_code == 0
    first, faults, last = result.output.splitlines()
    assert first.startswith("3 seeds from 0: 30 s of virtual time in 0 s, 300 steps")
    assert faults == "faults: kill 6, wire 6"
    assert last == "No guarantee was broken."


@pytest.mark.usefixtures("simulated")
def test_seed_with_violation_is_reported_with_the_command_that_repeats_it(cli: Cli) -> None:
    result = cli("simulate", "--seed", "2", "--seeds", "3", "--faults", "disk")
    assert result.exit_code == 1
    assert "seed 3: 1 record lost" in result.output
    assert "Seeds that broke a guarantee: 3" in result.output
    assert result.output.endswith("The history of one: penstock simulate --seed 3 --faults disk\n")
    assert "faults: disk 6" in result.output


@pytest.mark.usefixtures("simulated")
def test_history_of_a_seed_ends_with_its_violations(cli: Cli) -> None:
    result = cli("simulate", "--seed", "3")
    assert result.exit_code == 1
    assert result.output.splitlines()[0] == "history of 3"
    assert result.output.splitlines()[-1] == "violated: 1 record lost"


@pytest.mark.usefixtures("simulated")
def test_json_of_many_seeds_and_of_one(cli: Cli) -> None:
    many = json.loads(cli("simulate", "--seeds", "5", "--json").output)
    assert many["violations"] == {"3": ["1 record lost"]}
    assert many["pairs"] == {"kill and wire": 5}
    assert many["seeds"] == 5
    one = json.loads(cli("simulate", "--seed", "3", "--json").output)
    assert one["trace"] == ["history of 3"]
    assert len(one["digest"]) == 16


@pytest.mark.usefixtures("simulated")
def test_no_seed_begins_after_the_time(cli: Cli) -> None:
    assert json.loads(cli("simulate", "--minutes", "0.0000001", "--json").output)["seeds"] == 0


def test_unknown_fault_is_refused_with_the_known_ones(cli: Cli) -> None:
    result = cli("simulate", "--faults", "kill,fire")
    assert result.exit_code == 2
    assert f"no fault is named 'fire'; they are: {', '.join(FAULTS)}" in " ".join(result.output.split())
