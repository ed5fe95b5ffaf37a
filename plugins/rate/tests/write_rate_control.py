"""Writes docs/rate-control.md and its drawings from simulations: `python plugins/rate/tests/write_rate_control.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from penstock import RateEstimator
from penstock.testing import PLANTS, MakeEstimator, Plant, PlantReport, PlantRun, draw, processed, report, simulate
from penstock_rate import (
    FixedOptions,
    FixedRateEstimator,
    ModelOptions,
    ModelRateEstimator,
    PIDOptions,
    PIDRateEstimator,
)

DOCS = Path(__file__).parents[3] / "docs"
SEEDS = range(1, 6)
FIRST_RATE = 1000.0


def _beginning(make: MakeEstimator) -> MakeEstimator:
    """With `spark.streaming.backpressure.initialRate`."""

    def started(interval_ms: int) -> RateEstimator:
        estimator = make(interval_ms)
        estimator.initial_rate = FIRST_RATE
        estimator.begin_with(FIRST_RATE)
        return estimator

    return started


def _pid(interval_ms: int) -> PIDRateEstimator:
    return PIDRateEstimator(PIDOptions(), interval_ms)


def _model(interval_ms: int) -> ModelRateEstimator:
    return ModelRateEstimator(ModelOptions(), interval_ms)


ESTIMATORS: dict[str, MakeEstimator] = {
    "pid": _pid,
    "model": _model,
    "fixed": lambda interval_ms: FixedRateEstimator(FixedOptions(5000.0), interval_ms),
    "pid\\*": _beginning(_pid),
    "model\\*": _beginning(_model),
}

Runs = dict[tuple[str, str], list[PlantRun]]
Reports = dict[tuple[str, str], list[PlantReport]]
Measure = Callable[[PlantReport], float]

MEASURES: dict[str, tuple[str, Measure, Callable[[float], str]]] = {
    "Batches until settled": (
        "From there on nine batches of ten end within 1.5 intervals of their time, and have, with the four before "
        "them, at least 70 % of the records that were attainable. After the slowest of the plant's changes.",
        lambda said: math.inf if said.settling is None else float(said.settling),
        lambda value: "never" if math.isinf(value) else f"{value:.0f}",
    ),
    "Overshoot": (
        "By how many intervals the longest batch was longer than the interval.",
        lambda said: said.overshoot,
        lambda value: f"{value:.2f}",
    ),
    "Longest wait": (
        "Of a batch for those before it, in intervals.",
        lambda said: said.queue,
        lambda value: f"{value:.1f}",
    ),
    "Used in time": (
        "Records processed in the whole run by batches that ended before the next was due, of the records that the "
        "best of all rates would have had.",
        lambda said: said.in_time,
        lambda value: f"{value:.0%}",
    ),
    "Used nearly in time": (
        "The same, of batches that ended within two intervals of their time.",
        lambda said: said.nearly_in_time,
        lambda value: f"{value:.0%}",
    ),
    "Used": (
        "The same, whenever the batches ended. Those longer than the interval pay the fixed time less often: in "
        "unstable runs they may have more than all.",
        lambda said: said.used,
        lambda value: f"{value:.0%}",
    ),
    "Oscillation": (
        "Mean change of the rate from a batch to the next, in the last quarter of the run.",
        lambda said: said.oscillation,
        lambda value: f"{value:.1%}",
    ),
}
# More is better of these, less of the others.
MORE = {"Used in time", "Used nearly in time", "Used"}


_INTRODUCTION = """\
# Rate control

Which estimator should I use?

- **`model`** in most cases: it learns what a batch costs, needs no first rate, and leaves headroom (`share`).
- **`pid`** to have what Spark has, number for number, or the last tenth of the capacity, where a short queue does no
  harm; set `spark.streaming.backpressure.initialRate`, and below 100 records/s also
  `spark.streaming.backpressure.pid.minRate`.
- **`fixed`** if you know the capacity and it does not change: set `spark.streaming.backpressure.fixed.rate`.
- None of them without `pip install penstock-rate` and `spark.streaming.backpressure.enabled=true`.

With `spark.streaming.backpressure.enabled=true` an estimator says after each batch how many records a second a
receiver may store. Which one is configuration: `spark.streaming.backpressure.rateEstimator`. Options, how `model`
decides, and how to write one: [penstock-rate](../plugins/rate/README.md). `penstock plugins new rate-estimator NAME`
writes a working one to change.

Limits that no estimate lifts: `spark.streaming.receiver.maxRate` for a receiver, `spark.penstock.maxTotalRate` for all
of an application together. Over any time *t* a receiver stores no more than *rate x (t + burst)* records, whatever form
of store it uses and from however many threads; the burst is `spark.penstock.receiver.burst`, one block interval when
not set. [configuration.md](configuration.md) has the keys.

Here estimators are on simulated plants: places where a batch takes a fixed time and a time a record, with noise, and
sources offer more, or now and then more, than can be processed. Medians of {seeds} seeds, {batches} batches each. This
page is made by `python plugins/rate/tests/write_rate_control.py`; for a run in the terminal there is
`penstock rate simulate --estimator model --plant step-down`, for a table `--all`. Only the section
[Live](#live) was measured with Spark."""

_FIRST = """\
`pid` begins without a limit, as in Spark; much of what it suffers is from its first batches. With
`spark.streaming.backpressure.initialRate={first:g}`, a good guess on most of these plants, marked \\*:"""

_FINDINGS = """\
- **How much of the capacity is used** depends on what is counted. Whoever keeps a queue that is never empty uses all of
  it: plainly counted the most reckless estimator is the best. `model` uses more than `pid` under the strict count only:
  of batches that ended before the next was due. That line runs where `pid` aims, at batches that take the whole
  interval, so three quarters of what it processes on a steady plant are beyond it, mostly by a little; `model` aims at
  0.85 of the interval and leaves the rest as headroom. A line that is a little more generous changes the picture:"""

_FURTHER = """\
- Whoever needs batches in time gains by `model`'s headroom; whoever does not mind a short queue has more of the
  capacity with `pid`, where nothing changes, or with a higher `share`.
- Below a hundred records a second `pid` does not go unless `minRate` is set: there it does not keep up.
- From a good first rate `pid` is often there sooner than `model`, which trusts what it has seen. A first rate that
  is far too high makes a long queue, whoever steers.
- `fixed`, here 5,000/s, is right where one knows the capacity, and wrong elsewhere.
- Where times vary by half and one record more is much, or a pause of several intervals comes just before the end, a
  few runs of `model` end with a queue when those of `pid` do not."""

_LIVE = """\
Measured by hand on 2026-11-21, unlike the simulations above, which the page is generated from.

A job that takes 50 ms and 1 s for every 20,000 lines, from a server that sends without end; after a third of 90 s that
becomes 10,000 lines, after two thirds 20,000 again. `python benchmarks/rate_live.py ENGINE --seconds 90
--initial-rate 5000`, once each, on a machine with 2 cores that did other work besides; everything, the sender included,
is on these two.

| | settled in batch, of each third | longest wait, s | behind settling, s | used in the last half of each third |
|---|---:|---:|---:|---:|
| `model` | 11, 6, 1 | 1.41, 1.64, 0.28 | 0.74, 0.80, 0.28 | 80 %, 82 %, 76 % |
| `pid` | 6, 11, 1 | 0.56, 2.80, 0.33 | 0.56, 0.92, 0.33 | 94 %, 97 %, 95 % |
| `pyspark.streaming` | 1, 15, 1 | 0.29, 3.20, 0.37 | 0.29, 0.45, 0.37 | 84 %, 75 %, 86 % |

Settled means that from that batch on all that were due came, had records and waited for less than one interval. When
the capacity halves, `model` is there in about half the batches and with little more than half the wait; of the capacity
`pid` uses more in each third."""

# A batch counts when it ended within so many intervals of its time.
LINES = (1.0, 1.05, 1.1, 2.0, math.inf)


def simulated() -> Runs:
    return {
        (plant.name, name): [simulate(plant, make, seed) for seed in SEEDS]
        for plant in PLANTS.values()
        for name, make in ESTIMATORS.items()
    }


def _used(runs: list[PlantRun], line: float) -> float:
    return sorted(processed(run, line) / sum(batch.attainable for batch in run.batches) for run in runs)[len(runs) // 2]


def _lines(runs: Runs) -> str:
    rows = ["| a batch counts within | better | the same | worse | better\\* | the same\\* | worse\\* |"]
    rows.append(f"|---|{'---:|' * 6}")
    for line in LINES:
        cells = []
        for mark in ("", "\\*"):
            pairs = [
                (round(_used(runs[plant, f"model{mark}"], line), 2), round(_used(runs[plant, f"pid{mark}"], line), 2))
                for plant in PLANTS
            ]
            cells += [sum(a > b for a, b in pairs), sum(a == b for a, b in pairs), sum(a < b for a, b in pairs)]
        name = "any time" if math.isinf(line) else f"{line:.2f} intervals"
        rows.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _middle(reports: list[PlantReport], measure: Measure) -> float:
    return sorted(measure(said) for said in reports)[len(reports) // 2]


def _table(reports: Reports, name: str) -> str:
    _, measure, write = MEASURES[name]
    lines = [f"| | {' | '.join(ESTIMATORS)} |", f"|---|{'---:|' * len(ESTIMATORS)}"]
    for plant in PLANTS:
        cells = []
        for estimator in ESTIMATORS:
            of_plant = reports[plant, estimator]
            unstable = sum(not said.stable for said in of_plant) > len(of_plant) // 2
            cells.append(write(_middle(of_plant, measure)) + (" !" if unstable else ""))
        lines.append(f"| {plant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _comparison(reports: Reports, one: str, other: str) -> str:
    lines = [f"| {one} beside {other} | better | the same | worse |", "|---|---:|---:|---:|"]
    for name, (_, measure, write) in MEASURES.items():
        pairs = [(_middle(reports[plant, one], measure), _middle(reports[plant, other], measure)) for plant in PLANTS]
        same = sum(write(mine) == write(its) for mine, its in pairs)
        better = sum(write(mine) != write(its) and (mine > its) == (name in MORE) for mine, its in pairs)
        lines.append(f"| {name.lower()} | {better} | {same} | {len(pairs) - same - better} |")
    return "\n".join(lines)


def _described(plant: Plant) -> str:
    return (
        f"| `{plant.name}` | {plant.summary} | {plant.interval_ms:,} ms | {plant.fixed_ms:g} ms | {plant.noise:.0%} |"
    )


def page(runs: Runs) -> str:
    reports = {key: [report(run) for run in of_key] for key, of_key in runs.items()}
    parts = [
        _INTRODUCTION.format(seeds=len(SEEDS), batches=PLANTS["steady"].batches),
        "![pid on the plant step-down](rate-pid.svg)",
        "![model on the plant step-down](rate-model.svg)",
        "## What it comes to",
        "On how many of the plants, in which measure:",
        _comparison(reports, "model", "pid"),
        _comparison(reports, "model", "fixed"),
        _FIRST.format(first=FIRST_RATE),
        _comparison(reports, "model\\*", "pid\\*"),
        _FINDINGS,
        _lines(runs),
        _FURTHER,
        "`!` marks runs that are unstable: at the end batches wait for more than five intervals.",
        "## Live",
        _LIVE,
        "## The plants",
        "\n".join(
            [
                "| plant | | batches every | fixed time | noise |",
                "|---|---|---:|---:|---:|",
                *map(_described, PLANTS.values()),
            ]
        ),
    ]
    for name, (meaning, _, _) in MEASURES.items():
        parts += [f"## {name}", meaning, _table(reports, name)]
    return "\n\n".join(parts) + "\n"


def drawings() -> dict[str, str]:
    shown = PLANTS["step-down"]
    return {
        f"rate-{name}.svg": draw(simulate(shown, ESTIMATORS[name]), f"{name} on {shown.name}: {shown.summary}")
        for name in ("pid", "model")
    }


def main() -> None:
    for name, text in {"rate-control.md": page(simulated()), **drawings()}.items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
