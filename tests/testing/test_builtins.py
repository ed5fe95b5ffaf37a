"""Every receiver, rate estimator, listener and block store that ships with Penstock has a conformance suite."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.testing.builtins import builtins, name_of, suites, table

from penstock_testing import Report

#: How many of each kind ship with Penstock: one that disappears unnoticed would be one that is no longer checked.
PINNED_BUILTINS = {"receiver": 13, "rate-estimator": 3, "listener": 4, "block-store": 3}


def test_number_of_builtins_is_pinned() -> None:
    assert {kind: len(names) for kind, names in builtins().items()} == PINNED_BUILTINS


@pytest.mark.parametrize("kind", PINNED_BUILTINS)
def test_every_builtin_has_a_suite(kind: str) -> None:
    tested = {name_of(suite) for suite in suites() if suite.kind == kind}
    assert builtins()[kind] - tested == set()


def test_table_counts_those_whose_every_suite_passes() -> None:
    chosen = [suite for suite in suites() if suite.kind == "rate-estimator"]
    reports = [(suite, Report(suite.kind, suite.__name__, 0, None, ())) for suite in chosen]
    row = f"| rate-estimator | 3 of 3 | {len(chosen)} of {len(chosen)} | fixed, model, pid |"
    assert row in table(reports).splitlines()
    assert Counter(map(name_of, chosen))["pid"] > 1
    first = next(number for number, suite in enumerate(chosen) if suite.name == "pid")
    reports[first] = (chosen[first], Report("rate-estimator", "shrunk", 0, 45, ()))
    assert f"| rate-estimator | 2 of 3 | {len(chosen) - 1} of {len(chosen)} |" in table(reports)
