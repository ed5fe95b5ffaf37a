"""Writes docs/reference/monitoring.md from the code: ``python -m plugins.ui.tests.write_monitoring``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from plugins.ui.tests.snapshots import snapshot as fake
from tests.helpers.markdown import attributes, fields, names, summary, table

from penstock_ui import own_events, prometheus, rest, snapshot, spark_jobs
from penstock_ui.terminal import State, summary as status_of

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "monitoring.md"
_START = """\
# Metrics, REST and event logs

<!-- Written by `python -m plugins.ui.tests.write_monitoring`. -->

What `penstock-ui` serves and writes, name by name. [Monitoring](../monitoring.md) says what to look at and what to
alert on; [penstock-ui](../../plugins/ui/README.md#options) has the options.
"""
_STATE = (
    snapshot.Snapshot,
    snapshot.Application,
    snapshot.Totals,
    snapshot.Batch,
    snapshot.Operation,
    spark_jobs.JobInfo,
    snapshot.Stream,
    snapshot.RateChange,
    snapshot.Storage,
    snapshot.Listener,
    snapshot.Distribution,
)


def _metrics() -> Iterator[str]:
    yield "## Metrics\n"
    yield "Served at `/metrics` in Prometheus' text format.\n"
    rows = [
        (f"`{prometheus.PREFIX}{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.help)
        for each in prometheus.metrics(fake())
    ]
    yield table(("metric", "type", "labels", "meaning"), rows)


def _rest() -> Iterator[str]:
    yield "## REST\n"
    yield (
        "Below `/api/v1/applications/<application id>/streaming/`. Field names are Spark's; a field whose value is\n"
        "not known is left out. `monitoring` is what Spark's REST has no field for. The fields of\n"
        "`penstock status URL --json` are\n"
        f"{', '.join(f'`{name}`' for name in status_of(_answers()))}.\n"
    )
    state = fake(2, 70, problems={1: "lost"})
    batch = state.batches[60]
    found: dict[str, Any] = {
        "`statistics`": rest.statistics(state),
        "`receivers`, `receivers/<stream id>`": rest.receiver(state, state.streams[1]),
        "`batches?status=&limit=`, `batches/<batch id>`": rest.batch(state, batch),
        "`batches/<batch id>/operations`, `…/operations/<id>`": rest.operation((batch.operations or ())[0]),
        "`monitoring`": rest.monitoring(state),
        "each of `streams` in `monitoring`": rest.monitoring(state)["streams"][1],
        "each of `rateChanges` of a stream": rest.monitoring(state)["streams"][1]["rateChanges"][0],
        "each delay in `monitoring`, such as `latency`": rest.monitoring(state)["latency"],
        "each of `listeners` in `monitoring`": rest.monitoring(state)["listeners"][0],
    }
    rows = [(path, ", ".join(f"`{name}`" for name in given)) for path, given in found.items()]
    yield table(("resource", "fields"), rows)


def _answers() -> State:
    state = fake()
    batches = [rest.batch(state, each) for each in state.batches]
    return State(rest.application(state), rest.statistics(state), [], batches, rest.monitoring(state))


def _own_events() -> Iterator[str]:
    yield "## Records of the event log\n"
    yield (
        "A line is a JSON object: `event` names the record. The other fields are those of the [events](events.md),\n"
        "and of these records, which only the event log has:\n"
    )
    own = [kind for kind in get_args(own_events.Taken) if kind.__module__ == own_events.__name__]
    rows = [(f"`{kind.__name__}`", names(kind), summary(kind)) for kind in own]
    yield table(("record", "fields", "meaning"), rows)


def _state() -> Iterator[str]:
    yield "## The state that the pages show\n"
    yield (
        "Dashboard, REST, Prometheus, terminal and history render one value, `penstock_ui.snapshot.Snapshot`. Times\n"
        "are milliseconds since the epoch, delays milliseconds, rates records/s, sizes bytes. [Events](events.md) has\n"
        "the fields of `DStreamInfo`.\n"
    )
    for kind in _STATE:
        yield f"### `{kind.__name__}`\n"
        if attributes(kind):
            yield table(("field", "meaning"), list(fields(kind)))
        else:
            yield f"{summary(kind)} Fields: {names(kind)}.\n"


def page() -> str:
    """The whole page."""
    return "\n".join([_START, *_metrics(), *_rest(), *_own_events(), *_state()])


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
