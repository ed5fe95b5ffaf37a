"""`penstock simulate`: many seeds, one seed with its history, and refused arguments."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import Result

import penstock_testing
from penstock_cli import simulate
from penstock_testing import FAULTS, SimulatedFault, SimulationOutcome

Cli = Callable[..., Result]


PLANNED = (SimulatedFault("kill", 1.0), SimulatedFault("wire", 2.0, 1.5, 7), SimulatedFault("kill", 4.0))


# Several processes would not see what a test replaces.
HERE = ("--processes", "1")


class OneBroken:
    """Stands in for a simulation: seed 3 breaks a guarantee with the fault ``wire`` or without planned ones."""

    def __init__(self, seed: int, faults: tuple[str, ...] | Sequence[SimulatedFault] | None) -> None:
        self.seed = seed
        self.planned = tuple(fault for fault in faults or () if isinstance(fault, SimulatedFault))
        self.is_plan = faults is not None and all(isinstance(fault, SimulatedFault) for fault in faults)
        kinds = [fault for fault in faults or () if isinstance(fault, str)]
        self.faults = dict.fromkeys(kinds or ("kill", "wire"), 2)

    def run(self) -> SimulationOutcome:
        planned = self.planned if self.is_plan else PLANNED
        violations = ("1 record lost",) if self.seed == 3 and PLANNED[1] in planned else ()
        trace = (f"history of {self.seed}",)
        return SimulationOutcome(self.seed, planned, self.faults, trace, 10.0, 100, violations, 2.0)


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
    result = cli("simulate", "--seeds", "3", *HERE)
    assert result.exit_code == 0
    first, speed, faults, pairs, pairs_of_kill, last = result.output.splitlines()
    assert first.startswith("3 seeds from 0: 30 s of virtual time in 0 s, 300 steps")
    assert speed == "processor time: 6 s, 5 simulated hours per hour"
    assert faults == "faults: kill 6, wire 6"
    assert pairs_of_kill == "  kill and: wire 3"
    assert pairs == "pairs of faults: 1 of 1 met in a seed, the rarest in 3: kill and wire"
    assert last == "No guarantee was broken."


@pytest.mark.usefixtures("simulated")
def test_search_without_a_terminal_says_now_and_then_how_far_it_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "_REPORT_S", 0.0)
    result = cli("simulate", "--seeds", "5", *HERE)
    assert result.stderr.splitlines() == [
        f"{seeds} seeds in 0 s, {int(seeds > 3)} with a violation" for seeds in range(1, 6)
    ] + [line for line in result.stderr.splitlines() if line.startswith("simulation ")]


@pytest.mark.usefixtures("simulated")
def test_seed_with_violation_is_reported_with_the_command_that_repeats_it(cli: Cli) -> None:
    result = cli("simulate", "--seed", "2", "--seeds", "3", "--faults", "disk", *HERE)
    assert result.exit_code == 1
    assert "seed 3: 1 record lost" in result.output
    assert "Seeds that broke a guarantee: 3" in result.output
    assert "The history of one: penstock simulate --seed 3 --faults disk\n" in result.output
    assert "Seed 3 needs 1 of its 3 faults. As a test:" in result.output
    assert '    faults = [\n        SimulatedFault("wire", 2.0, 1.5, 7),\n    ]\n' in result.output
    assert "faults: disk 6" in result.output


@pytest.mark.usefixtures("simulated")
def test_history_of_a_seed_ends_with_its_violations(cli: Cli) -> None:
    result = cli("simulate", "--seed", "3")
    assert result.exit_code == 1
    assert result.output.splitlines()[0] == "history of 3"
    assert "violated: 1 record lost" in result.output.splitlines()
    assert "def test_seed_3() -> None:" in result.output


@pytest.mark.usefixtures("simulated")
def test_json_of_many_seeds_and_of_one(cli: Cli) -> None:
    many = json.loads(cli("simulate", "--seeds", "5", "--json", *HERE).output)
    assert many["violations"] == {"3": ["1 record lost"]}
    assert many["pairs"] == {"kill and wire": 5}
    assert many["seeds"] == 5
    assert many["cpu_s"] == 10.0
    one = json.loads(cli("simulate", "--seed", "3", "--json").output)
    assert one["trace"] == ["history of 3"]
    assert len(one["digest"]) == 16


@pytest.mark.usefixtures("simulated")
def test_no_seed_begins_after_the_time(cli: Cli) -> None:
    assert json.loads(cli("simulate", "--minutes", "0.0000001", "--json", *HERE).output)["seeds"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_search_with_its_summary(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    class Interrupted(OneBroken):
        def run(self) -> SimulationOutcome:
            if self.seed == 2:
                signal.raise_signal(number)
            return super().run()

    monkeypatch.setattr(penstock_testing, "Simulation", Interrupted, raising=False)
    handler = signal.getsignal(signal.SIGTERM)
    result = cli("simulate", "--minutes", "5", *HERE)
    assert result.exit_code == 0
    assert result.output.startswith("2 seeds from 0: ")
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.usefixtures("simulated")
def test_picture_of_a_seed(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "history.svg"
    assert cli("simulate", "--seed", "2", "--picture", str(file)).exit_code == 0
    assert "Seed 2: no broken guarantees" in file.read_text()
    result = cli("simulate", "--seeds", "2", "--picture", str(file))
    assert result.exit_code == 2
    assert "--picture draws one seed" in result.output


@pytest.mark.programs
def test_seeds_run_in_several_processes(cli: Cli) -> None:
    result = json.loads(cli("simulate", "--seeds", "4", "--processes", "2", "--faults", "kill", "--json").output)
    assert result["seeds"] == 4
    assert result["violations"] == {}
    assert result["faults"]["kill"] > 4


def test_unknown_fault_is_refused_with_the_known_ones(cli: Cli) -> None:
    result = cli("simulate", "--faults", "kill,fire")
    assert result.exit_code == 2
    assert f"no fault is named 'fire'; they are: {', '.join(FAULTS)}" in " ".join(result.output.split())
