"""The receiver ``synthetic`` passes the conformance checks."""

from __future__ import annotations

from typing import ClassVar

from penstock_synthetic.conformance import SyntheticSuite


class TestSynthetic(SyntheticSuite):
    pass


class TestSyntheticPairs(SyntheticSuite):
    """Records that have no columnar form are stored as rows."""

    options: ClassVar = {"rate": 0, "shape": "pairs"}
