"""The picture of a simulation's history."""

from __future__ import annotations

from xml.etree import ElementTree

from penstock_testing import SimulatedFault, SimulationOutcome
from penstock_testing.simulation.history_svg import draw_history

TRACE = (
    "       0.000 ms |  | seed 3, faults: kill",
    "       5.000 ms | driver 1 | main | info streaming started batch_interval_ms=1000",
    "    1000.000 ms | simulation | main | fault: kill",
    "    2000.000 ms | driver 2 | job-0 | output records 1700000001000: ['<a>', '|']",
    "    3000.000 ms | receiver A.1 | task | warning receiver ended",
    "    4000.000 ms | simulation | main | VIOLATED: 1 record lost",
)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*planned: SimulatedFault) -> ElementTree.Element:
    outcome = SimulationOutcome(3, planned, {"kill": 1}, TRACE, 4.0, 9, ("1 record lost",))
    return ElementTree.fromstring(draw_history(outcome))


def test_every_process_of_the_program_has_a_row() -> None:
    texts = [element.text for element in drawn().iter(f"{SVG}text")]
    assert texts[0] == "Seed 3: 1 broken guarantees"
    rows = [text for text in texts if text in {"driver 1", "driver 2", "receiver A.1", "simulation"}]
    assert rows == ["driver 1", "driver 2", "receiver A.1", "simulation"]


def test_marks_show_their_lines() -> None:
    titles = [title.text for line in drawn().iter(f"{SVG}line") for title in line.iter(f"{SVG}title")]
    assert titles == [TRACE[3].strip(), TRACE[4].strip(), TRACE[5].strip()]


def test_faults_are_as_wide_as_they_last() -> None:
    picture = drawn(SimulatedFault("kill", 1.0), SimulatedFault("wire", 1.0, 2.0))
    momentary, lasting = [element for element in picture.iter(f"{SVG}rect") if element.get("fill") == "#f3c1c1"]
    assert float(momentary.get("width", "")) == 2
    assert float(lasting.get("width", "")) == (1120 - 170 - 20) / 2
    assert momentary.get("x") == lasting.get("x")
