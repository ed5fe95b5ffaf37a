"""Runs the engines of a row alternately, and collects the results of the rounds in a form that can be saved."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

import cattrs
from attrs import asdict, field, frozen

from benchmarks import machine
from benchmarks.engines import ENGINES, OURS
from benchmarks.measurement import Measurement, measure
from benchmarks.metrics import METRICS, medians
from benchmarks.rows import Goal, Point, Row


@frozen
class Cell:
    """All rounds of one engine at one point.

    Attributes:
        engine: its name.
        x: the point.
        rounds: the figures of each round, in their order; empty for a round that failed.
        reason: why there is a round without figures; empty if there is none.
        is_wrong: whether that is a failure.
        trend: of the last round.
    """

    engine: str
    x: float
    rounds: tuple[Mapping[str, float], ...] = ()
    reason: str = ""
    is_wrong: bool = False
    trend: tuple[tuple[float, float], ...] = ()

    @property
    def medians(self) -> dict[str, float]:
        """The median of each metric."""
        return medians([figures for figures in self.rounds if figures])


@frozen
class Outcome:
    """A row that was run at one point.

    Attributes:
        row: its name.
        x: the point.
        date: when it ended.
        is_quick: whether the sizes say nothing about speed.
        seed: of the data.
        machine: what it ran on.
        state: how busy that was before each round.
        cells: engine after engine.
    """

    row: str
    x: float
    date: str
    is_quick: bool
    seed: int
    machine: Mapping[str, str] = field(factory=dict)
    state: str = ""
    cells: tuple[Cell, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return max((len(cell.rounds) for cell in self.cells), default=0)

    def cell(self, engine: str) -> Cell | None:
        """The rounds of an engine."""
        return next((cell for cell in self.cells if cell.engine == engine), None)

    @property
    def failures(self) -> list[str]:
        """The failures of Penstock, and every wrong answer."""
        return [
            f"{self.row}, {cell.engine} at {cell.x:g}: {cell.reason}"
            for cell in self.cells
            if cell.is_wrong and (cell.engine in OURS or cell.reason.startswith("wrong answer"))
        ]

    def save(self, folder: Path) -> None:
        """Write the outcome into a folder, replacing the row's earlier outcome at this point."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.row}-{self.x:.15g}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Outcome:
        """Read one that was saved."""
        return cattrs.structure(json.loads(path.read_text(encoding="utf-8")), cls)


@frozen
class Spread:
    """Ratios of two engines over the rounds: median, minimum, maximum and number."""

    median: float
    least: float
    most: float
    num_rounds: int


def ratios(ours: Cell, other: Cell, metric: str) -> Spread | None:
    """Our figure over the other's, round by round; ``None`` if no round has both."""
    pairs = zip(ours.rounds, other.rounds, strict=False)
    per_round = [one[metric] / two[metric] for one, two in pairs if one.get(metric) and two.get(metric)]
    return Spread(statistics.median(per_round), min(per_round), max(per_round), len(per_round)) if per_round else None


@frozen
class Judgement:
    """Whether the figures meet a goal.

    Attributes:
        is_met: whether it is met; ``None`` if figures are missing.
        figure: the median of the engine's metric.
        ratio: to the peer, if the goal is a ratio.
        limit: the value that the goal allows or requires, if it is not a ratio.
        slower: how many times as fast as the engine the limit is.
        rounds: number of rounds.
    """

    is_met: bool | None = None
    figure: float = 0.0
    ratio: Spread | None = None
    limit: float = 0.0
    slower: Spread | None = None
    rounds: int = 0


def judge(goal: Goal, row: Row, outcomes: Sequence[Outcome]) -> Judgement:
    """Compare a goal with the figures.

    Args:
        goal: of the row.
        row: which was run.
        outcomes: of its points, each at most once.
    """
    x = row.points[0].x if goal.x is None else goal.x
    outcome = next((outcome for outcome in outcomes if (outcome.row, outcome.x) == (row.name, x)), None)
    ours = outcome.cell(goal.engine) if outcome else None
    peer = outcome.cell(goal.peer) if outcome else None
    if ours is None or goal.metric not in ours.medians:
        return Judgement()
    if goal.peer and (peer is None or goal.metric not in peer.medians):
        return Judgement()
    figure = ours.medians[goal.metric]
    bare = outcome.cell(goal.limit) if outcome else None
    slower = None
    if bare:
        more, less = (bare, ours) if METRICS[goal.metric].is_more_better else (ours, bare)
        slower = ratios(more, less, goal.metric)
    if peer and not goal.offset:
        ratio = ratios(ours, peer, goal.metric)
        met = None if ratio is None else _holds(ratio.median, goal.relation, goal.factor)
        return Judgement(met, figure, ratio, 0.0, slower, len(ours.rounds))
    limit = goal.offset + (goal.factor * peer.medians[goal.metric] if peer else 0.0)
    return Judgement(_holds(figure, goal.relation, limit), figure, None, limit, slower, len(ours.rounds))


def _holds(figure: float, relation: str, limit: float) -> bool:
    return figure >= limit if relation == ">=" else figure <= limit


def run_point(
    row: Row,
    point: Point,
    engines: Sequence[str],
    *,
    rounds: int,
    seed: int,
    is_quick: bool,
    conf: Mapping[str, str],
    report: Callable[[str], object],
) -> Outcome:
    """Run a row at a point. Each round runs every engine once, and starts with another engine.

    A round begins when the machine is idle, except in a quick run.

    Args:
        row: to run.
        point: one of its points.
        engines: names of those of the row's engines that run.
        rounds: how often each runs.
        seed: of the data.
        is_quick: noted in the outcome.
        conf: configuration of Spark for all engines.
        report: gets a line before each measurement and one after it.

    Raises:
        BusyError: the machine did not become idle.
    """
    state = machine.state()
    busy_shares = list[float]()
    measurements: dict[str, list[Measurement]] = {name: [] for name in engines}
    for number in range(rounds):
        if not is_quick:
            busy_shares.append(machine.wait_until_idle())
        first = number % len(engines)
        for name in (*engines[first:], *engines[:first]):
            if measurements[name] and measurements[name][-1].reason:
                continue  # an engine that is missing or failed once would fail again
            where = f"{row.name}, {row.axis} {point.x:g}" if row.axis else row.name
            report(f"{where}, round {number + 1} of {rounds}: {name} …")
            missing = ENGINES[name].reason_not_available
            measured = (
                Measurement(reason=missing) if missing else measure(ENGINES[name], row, point, seed=seed, conf=conf)
            )
            measurements[name].append(measured)
            report(f"  {_said(measured, row)}")
    cells = [
        Cell(
            name,
            point.x,
            tuple(measurement.figures for measurement in each_round),
            each_round[-1].reason,
            each_round[-1].is_wrong,
            each_round[-1].trend,
        )
        for name, each_round in measurements.items()
    ]
    if busy_shares:
        state = f"at most {max(busy_shares):.0%} busy before each round; {machine.priority()}"
    date = datetime.now(timezone.utc).isoformat(timespec="minutes")  # noqa: UP017  # the name that 3.11's docs use
    return Outcome(row.name, point.x, date, is_quick, seed, machine.describe(), state, tuple(cells))


def _said(measured: Measurement, row: Row) -> str:
    if measured.reason:
        return f"{'FAILED' if measured.is_wrong else 'not available'}: {measured.reason}"
    figures = measured.figures
    return ", ".join(
        f"{METRICS[name].title} {figures[name]:,.4g} {METRICS[name].unit}" for name in row.metrics if name in figures
    )
