"""Writes docs/rate-control.md and its drawings from simulations: `python -m plugins.rate.tests.write_rate_control`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

from penstock import RateEstimator
from penstock_rate import (
    FixedOptions,
    FixedRateEstimator,
    ModelOptions,
    ModelRateEstimator,
    PIDOptions,
    PIDRateEstimator,
)
from penstock_testing import (
    WORKLOADS,
    MakeEstimator,
    WorkloadReport,
    WorkloadRun,
    draw,
    processed,
    report,
    simulate,
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

Runs = dict[tuple[str, str], list[WorkloadRun]]
Reports = dict[tuple[str, str], list[WorkloadReport]]
Measure = Callable[[WorkloadReport], float]

MEASURES: dict[str, tuple[str, Measure, Callable[[float], str]]] = {
    "Batches until settled": (
        "batches until the run has settled, after the slowest of the workload's changes. A run has settled when the "
        "next three batches and nine tenths of all further ones are good. A good batch ends within 1.5 intervals of "
        "its time and has, with the four batches before it, at least 70 % of the attainable records",
        lambda said: math.inf if said.settling is None else float(said.settling),
        lambda value: "never" if math.isinf(value) else f"{value:.0f}",
    ),
    "Overshoot": (
        "the part of the longest processing time above one interval, in intervals",
        lambda said: said.overshoot,
        lambda value: f"{value:.2f}",
    ),
    "Longest wait": (
        "the longest time that a batch waited for earlier batches, in intervals",
        lambda said: said.queue,
        lambda value: f"{value:.1f}",
    ),
    "Used in time": (
        "records of batches that ended before the next one was due, as a share of those that the best possible rate "
        "would have processed",
        lambda said: said.in_time,
        lambda value: f"{value:.0%}",
    ),
    "Used nearly in time": (
        "the same for batches that ended within two intervals of their time",
        lambda said: said.nearly_in_time,
        lambda value: f"{value:.0%}",
    ),
    "Used": (
        "the same for all batches. Batches longer than the interval pay the fixed time less often, so an unstable run "
        "may exceed 100 %",
        lambda said: said.used,
        lambda value: f"{value:.0%}",
    ),
    "Oscillation": (
        "the mean change of the rate from one batch to the next, in the last quarter of the run",
        lambda said: said.oscillation,
        lambda value: f"{value:.1%}",
    ),
}
# Measures and estimators of which the page has the figures of each workload; `penstock rate simulate --all` prints all.
SHOWN = ("Batches until settled", "Longest wait", "Used in time")
COMPARED = ("pid", "model")
# More is better of these, less of the others.
MORE = {"Used in time", "Used nearly in time", "Used"}


_INTRODUCTION = """\
# Rate control

After reading this page you can turn rate control on, choose a rate estimator, and see how the estimators compare. After
each batch the rate estimator computes how many records per second each receiver may store, so that batches finish within
the batch interval.

## Use it

Run `pip install penstock-rate`, and set these keys or `spark.penstock.profile=production`:

```properties
spark.streaming.backpressure.enabled=true
spark.streaming.backpressure.rateEstimator=model
```

| estimator | use it | set |
|---|---|---|
| `model` | in most cases: it learns the cost of a batch, needs no initial rate, and leaves headroom | `spark.streaming.backpressure.model.share`, the share of the interval that a batch may take (by default 0.85 to 0.95, less with noise) |
| `pid` | for Spark's behaviour, or for the last tenth of the capacity, if batches may wait a little | `spark.streaming.backpressure.initialRate`; below 100 records/s also `spark.streaming.backpressure.pid.minRate` |
| `fixed` | if the capacity is known and does not change | `spark.streaming.backpressure.fixed.rate` |

[penstock-rate](../plugins/rate/README.md) has all options and explains `model`. The [tutorial](tutorial-rate-estimator.md)
leads to an estimator of your own. The page "Rates" of the [dashboard](monitoring.md) shows the estimator's reasons.

## Limits

These limits hold for every estimate, and without an estimator:

| key | limits |
|---|---|
| `spark.streaming.receiver.maxRate` | each receiver |
| `spark.penstock.maxTotalRate` | all receivers of the application together |

In any period *t* a receiver stores at most *rate x (t + burst)* records, for every form of `store` and any number of
threads. The burst allowance is `spark.penstock.receiver.burst`, by default one block interval.

## Estimators on simulated workloads

A simulated workload needs no Spark. Its batches take a fixed time and a time per record, with noise, and its sources
offer more records than the batches can process. The tables have medians of {seeds} seeds with {batches} batches each.
`penstock rate simulate --estimator model --workload step-down` draws a run, and `--all` prints every measure. Only
[Live](#live) was measured with Spark.

![pid on the workload step-down](rate-pid.svg)

![model on the workload step-down](rate-model.svg)

### Summary

The table counts the workloads on which `model` is better than `pid` or `fixed`, the same, or worse. In the columns with
\\* both `model` and `pid` have `spark.streaming.backpressure.initialRate={first:g}`, a good guess on most workloads.
[Workload by workload](#workload-by-workload) defines the measures."""  # noqa: E501  # a row of a table is one line

_FINDINGS = """\
How much of the capacity an estimator uses depends on the deadline of a batch. `pid` aims at batches that take the whole
interval. Three quarters of its records on a steady workload are therefore late, mostly by a little. `model` aims at
0.85 to 0.95 of the interval. The stricter the deadline, the more workloads on which `model` uses more:"""

_FURTHER = """\
- If batches must be in time, use `model`. If a short queue is acceptable, `pid` uses more of the capacity where nothing
  changes; so does `model` with a higher `share`.
- `pid` starts without a limit, as in Spark, and most of its bad results come from its first batches. On `bursty` it
  therefore settles at once. On `pauses` no estimator settles. On all other workloads `model` settles first.
- From a good initial rate `pid` often settles before `model`. A far too high initial rate makes a long queue with every
  estimator. Below 100 records/s `pid` does not keep up without a lower `minRate`.
- A few runs of `model` end with a queue that `pid` does not have: runs whose times vary by half while one record is a
  large part of a batch, and runs with a pause of several intervals just before the end."""

_LIVE = """\
The table has one run of 90 s for each engine on 2026-11-23, with sender and program on 2 cores. A job takes 50 ms, and
1 s for every 20,000 lines. After a third of the run the capacity drops to 10,000 lines/s, after two thirds it returns to
20,000. `.venv/bin/python -m benchmarks.rate_live ENGINE --seconds 90 --initial-rate 5000` repeats a run.

| | settled in batch, of each third | longest wait, s | longest wait once settled, s | used in the last half of each third |
|---|---:|---:|---:|---:|
| `model` | 3, 7, 1 | 0.02, 2.29, 0.01 | 0.02, 0.90, 0.01 | 90 %, 95 %, 95 % |
| `pid` | 4, 11, 1 | 0.10, 2.66, 0.03 | 0.10, 0.84, 0.03 | 94 %, 99 %, 99 % |
| `pyspark.streaming` | 2, 12, 1 | 0.41, 2.60, 0.18 | 0.16, 0.67, 0.18 | 87 %, 93 %, 89 % |

A run has *settled* in the first batch from which on every due batch ran, had records, and waited for less than one
interval. `pid` uses more of
the capacity in each third."""  # noqa: E501  # a row of a table is one line

# A batch counts when it ended within this many intervals of its time.
LINES = (1.0, 1.05, 1.1, 2.0, math.inf)


@functools.cache
def simulated_run(workload: str, estimator: str, seed: int) -> WorkloadRun:
    """Also for the tests of the estimators, which need some of the same runs."""
    return simulate(WORKLOADS[workload], ESTIMATORS[estimator], seed)


def simulated() -> Runs:
    return {
        (workload, estimator): [simulated_run(workload, estimator, seed) for seed in SEEDS]
        for workload in WORKLOADS
        for estimator in ESTIMATORS
    }


def _used(runs: list[WorkloadRun], line: float) -> float:
    return sorted(processed(run, line) / sum(batch.attainable for batch in run.batches) for run in runs)[len(runs) // 2]


def _lines(runs: Runs) -> str:
    rows = ["| a batch counts within | better | the same | worse | better\\* | the same\\* | worse\\* |"]
    rows.append(f"|---|{'---:|' * 6}")
    for line in LINES:
        cells = []
        for mark in ("", "\\*"):
            pairs = [
                (
                    round(_used(runs[workload, f"model{mark}"], line), 2),
                    round(_used(runs[workload, f"pid{mark}"], line), 2),
                )
                for workload in WORKLOADS
            ]
            cells += [sum(a > b for a, b in pairs), sum(a == b for a, b in pairs), sum(a < b for a, b in pairs)]
        name = "any time" if math.isinf(line) else f"{line:.2f} intervals"
        rows.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _middle(reports: list[WorkloadReport], measure: Measure) -> float:
    return sorted(measure(said) for said in reports)[len(reports) // 2]


def _table(reports: Reports) -> str:
    columns = [(name, estimator) for name in SHOWN for estimator in COMPARED]
    heads = [f"{name.lower()}: {estimator}" if estimator == COMPARED[0] else estimator for name, estimator in columns]
    lines = [f"| workload | | {' | '.join(heads)} |", f"|---|---|{'---:|' * len(columns)}"]
    for workload in WORKLOADS.values():
        cells = [f"`{workload.name}`", workload.summary]
        for name, estimator in columns:
            _, measure, write = MEASURES[name]
            of_workload = reports[workload.name, estimator]
            unstable = sum(not said.stable for said in of_workload) > len(of_workload) // 2
            cells.append(write(_middle(of_workload, measure)) + ("!" if unstable else ""))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _comparison(reports: Reports) -> str:
    pairs_of_estimators = (("model", "pid"), ("model", "fixed"), ("model\\*", "pid\\*"))
    head = "better | the same | worse | fixed: better | the same | worse | pid\\*: better | the same | worse"
    lines = [f"| model against pid | {head} |", f"|---|{'---:|' * 9}"]
    for name, (_, measure, write) in MEASURES.items():
        cells = list[int]()
        for one, other in pairs_of_estimators:
            pairs = [
                (_middle(reports[workload, one], measure), _middle(reports[workload, other], measure))
                for workload in WORKLOADS
            ]
            same = sum(write(mine) == write(its) for mine, its in pairs)
            better = sum(write(mine) != write(its) and (mine > its) == (name in MORE) for mine, its in pairs)
            cells += [better, same, len(pairs) - same - better]
        lines.append(f"| {name.lower()} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def page(runs: Runs) -> str:
    reports = {key: [report(run) for run in of_key] for key, of_key in runs.items()}
    parts = [
        _INTRODUCTION.format(seeds=len(SEEDS), batches=WORKLOADS["steady"].batches, first=FIRST_RATE),
        _comparison(reports),
        _FINDINGS,
        _lines(runs),
        _FURTHER,
        "## Live",
        _LIVE,
        "## Workload by workload",
        _table(reports),
        "`!` marks unstable runs, whose batches wait for more than five intervals at the end. Unless the description "
        "says otherwise, batches are due every second.",
        "\n".join(f"- **{name}**: {meaning}." for name, (meaning, _, _) in MEASURES.items()),
    ]
    return "\n\n".join(parts) + "\n"


def drawings() -> dict[str, str]:
    shown = WORKLOADS["step-down"]
    return {
        f"rate-{name}.svg": draw(simulate(shown, ESTIMATORS[name]), f"{name} on {shown.name}: {shown.summary}")
        for name in ("pid", "model")
    }


def main() -> None:
    for name, text in {"rate-control.md": page(simulated()), **drawings()}.items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
