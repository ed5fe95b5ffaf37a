"""docs/conformance.md: its reference is what the kit generates, its programs run."""

from __future__ import annotations

import re
from typing import Any

import attrs
from tests.docs.write_conformance import PAGE, START, reference

import penstock_testing as testing
from penstock_testing import Capabilities


def test_reference_is_the_generated_one() -> None:
    prose, start, rest = PAGE.read_text(encoding="utf-8").partition(START)
    assert prose
    assert start + rest == reference(), "run: python -m tests.docs.write_conformance"


def test_every_flag_belongs_to_a_kind_of_plugin() -> None:
    kinds = {field.name: Capabilities.kind_of(field.name) for field in attrs.fields(Capabilities)}
    assert set(kinds.values()) == {"receiver", "rate-estimator", "listener"}, kinds


def test_programs_of_the_page_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": __name__}
    for block in blocks:
        exec(block, names)
    assert testing.run_suite(names["TestQueue"], ["RC-10"]).ok
    assert names["report"].failed == []
    names["QueueFeeder"]().put(["a"])
