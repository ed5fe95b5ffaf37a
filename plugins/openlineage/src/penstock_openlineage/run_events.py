"""OpenLineage's run events as JSON values, in the form of version 2-0-2 of its schema. Pure.

Every event has all inputs and outputs that are known, so that a lost event loses no dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from attrs import frozen

from penstock import __version__
from penstock_openlineage.dataset import Dataset

#: The transitions of a run that this plugin reports.
EventType = Literal["START", "RUNNING", "COMPLETE", "FAIL"]

PRODUCER = f"urn:penstock:openlineage:{__version__}"
_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"


@frozen
class Traffic:
    """What a dataset read or wrote since the event before.

    Attributes:
        dataset: the dataset.
        rows: number of records or rows; ``None`` where the program does not say.
        num_bytes: their size.
        files: number of files.
    """

    dataset: Dataset
    rows: int | None = None
    num_bytes: int | None = None
    files: int | None = None

    def __add__(self, other: Traffic) -> Traffic:
        """Both together; the dataset is the later one's."""
        return Traffic(
            other.dataset,
            _sum(self.rows, other.rows),
            _sum(self.num_bytes, other.num_bytes),
            _sum(self.files, other.files),
        )


@frozen
class RunFailure:
    """Why a run failed.

    Attributes:
        message: one line.
        stack_trace: the traceback; empty for none.
    """

    message: str
    stack_trace: str = ""


@frozen
class Run:
    """A run of a program.

    Attributes:
        run_id: a UUID.
        namespace: of the job.
        job: the program's name.
        interval_s: seconds between two events while it runs.
    """

    run_id: str
    namespace: str
    job: str
    interval_s: float


def run_event(
    run: Run,
    event_type: EventType,
    time_ms: int,
    inputs: Iterable[Traffic],
    outputs: Iterable[Traffic],
    failure: RunFailure | None = None,
) -> dict[str, Any]:
    """A run event.

    Args:
        run: the run.
        event_type: its transition.
        time_ms: when, ms since the epoch.
        inputs: what it reads.
        outputs: what it writes.
        failure: why it failed.
    """
    run_facets = {
        "processing_engine": _facet(
            "1-1-1/ProcessingEngineRunFacet",
            version=__version__,
            name="Penstock",
            openlineageAdapterVersion=__version__,
        )
    }
    if failure is not None:
        stack_trace = {"stackTrace": failure.stack_trace} if failure.stack_trace else {}
        run_facets["errorMessage"] = _facet(
            "1-0-1/ErrorMessageRunFacet", message=failure.message, programmingLanguage="PYTHON", **stack_trace
        )
    job_type = _facet(
        "2-0-4/JobTypeJobFacet",
        processingType="STREAMING",
        integration="PENSTOCK",
        jobType="JOB",
        emissionPattern={
            "eventTrigger": "PERIODIC",
            "eventContentMode": "ACCUMULATIVE",
            "windowDuration": max(1, round(run.interval_s)),
        },
    )
    return {
        "eventType": event_type,
        "eventTime": datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "producer": PRODUCER,
        "schemaURL": _RUN_EVENT,
        "run": {"runId": run.run_id, "facets": run_facets},
        "job": {"namespace": run.namespace, "name": run.job, "facets": {"jobType": job_type}},
        "inputs": [
            _dataset(each, "inputFacets", "inputStatistics", "1-0-0/InputStatisticsInputDatasetFacet")
            for each in inputs
        ],
        "outputs": [
            _dataset(each, "outputFacets", "outputStatistics", "1-0-2/OutputStatisticsOutputDatasetFacet")
            for each in outputs
        ],
    }


def _dataset(traffic: Traffic, facets: str, statistics: str, schema: str) -> dict[str, Any]:
    named = {"namespace": traffic.dataset.namespace, "name": traffic.dataset.name}
    counts = {"rowCount": traffic.rows, "size": traffic.num_bytes, "fileCount": traffic.files}
    known = {name: count for name, count in counts.items() if count is not None}
    return {**named, facets: {statistics: _facet(schema, **known)}} if known else named


def _facet(schema: str, **values: Any) -> Mapping[str, Any]:
    name = schema.partition("/")[2]
    return {"_producer": PRODUCER, "_schemaURL": f"{_SPEC}/facets/{schema}.json#/$defs/{name}", **values}


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second
