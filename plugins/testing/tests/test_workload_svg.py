"""A drawing of a run can be read: axes in round numbers, batches counted."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from penstock_testing.workload import Workload
from penstock_testing.workload_run import SimulatedBatch, WorkloadRun
from penstock_testing.workload_svg import draw

PLANT = Workload("plain", "", ((0, 1000),), (((0, 1000),),))


def labels(batches: list[SimulatedBatch]) -> list[str]:
    root = ET.fromstring(draw(WorkloadRun(PLANT, tuple(batches), 0, ()), "title"))
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text") if text.get("fill") == "#555"]


def batch(rate: float, processing_ms: int = 900, waited_ms: int = 0) -> SimulatedBatch:
    return SimulatedBatch((1,), (rate,), waited_ms, processing_ms, 950.0)


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        (
            [batch(700.0, 2100, 3300)] * 41,
            "0 500 1,000 0 0.5 1 1.5 2 0 1 2 3 batch 0 5 10 15 20 25 30 35 40",
        ),
        # Nothing waits, and there are two batches.
        (
            [batch(950.0)] * 2,
            "0 500 1,000 0 0.5 1 0 0.2 0.4 0.6 0.8 1 batch 0 1",
        ),
    ],
    ids=["many", "few"],
)
def test_axes_have_round_numbers(batches: list[SimulatedBatch], said: str) -> None:
    assert labels(batches) == said.split()
