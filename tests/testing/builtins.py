"""``python -m tests.testing.builtins``: the conformance suites of everything that ships with Penstock, as a table.

Takes minutes. Each suite runs in a process of its own. Exits with 1 if a check of level must or should fails.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from penstock.plugins.discovery import Plugins
from penstock_testing import ConformanceSuite, Report, run_suite
from penstock_testing.check import PINNED

_ROOT = Path(__file__).parents[2]
_FILES = ("plugins/*/tests/test_conformance.py", "tests/blocks/test_conformance.py")
#: The block stores of the core, which no entry point offers.
_CORE = {"LocalBlockHandler", "ReceiverWriteAheadLog"}


def suites() -> list[type[ConformanceSuite]]:
    """The suites of the test files of the first-party plugins and of the core's block stores."""
    found = list[type[ConformanceSuite]]()
    for path in (file for pattern in _FILES for file in sorted(_ROOT.glob(pattern))):
        spec = importlib.util.spec_from_file_location(f"builtins_{path.parents[1].name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += [
            each
            for name, each in vars(module).items()
            if name.startswith("Test") and issubclass(cast(type, each), ConformanceSuite)
        ]
    return found


def builtins() -> dict[str, set[str]]:
    """Kind → the names of what Penstock ships with."""
    plugins = Plugins()
    first_party = [each for each in plugins.loaded if each.distribution.startswith("penstock-")]
    return {
        "receiver": {spec.name for each in first_party for spec in each.specs.get("receivers", ())},
        "rate-estimator": {spec.name for each in first_party for spec in each.specs.get("rate_estimators", ())},
        "listener": {each.name for each in first_party if "listeners" in each.hooks},
        "block-store": _CORE | {each.name for each in first_party if "store" in each.hooks},
    }


def name_of(suite: type[ConformanceSuite]) -> str:
    """The name of what a suite tests."""
    return suite.name or suite.__name__.removeprefix("Test")


def table(reports: Iterable[tuple[type[ConformanceSuite], Report]]) -> str:
    """The table of kinds and the pinned totals."""
    ran = [(suite.kind, name_of(suite), report) for suite, report in reports]
    lines = ["| kind | built-ins that pass | suites that pass | names |", "|---|---|---|---|"]
    for kind, names in builtins().items():
        of_kind = [(name, report.ok) for each, name, report in ran if each == kind]
        good = names & ({name for name, _ in of_kind} - {name for name, ok in of_kind if not ok})
        passed = sum(ok for _, ok in of_kind)
        lines.append(
            f"| {kind} | {len(good)} of {len(names)} | {passed} of {len(of_kind)} | {', '.join(sorted(names))} |"
        )
    totals = ", ".join(f"{kind} {count}" for kind, count in PINNED.items())
    return "\n".join([*lines, f"\nChecks, pinned: {totals}; {sum(PINNED.values())} in all."])


def main() -> int:
    """Run every suite; print its last line, then the table."""
    reports = []
    for suite in suites():
        report = run_suite(type(suite.__name__, (suite,), {"isolated": True}))
        print(report.summary(), flush=True)
        for result in report.failed:
            print(result.text(), flush=True)
        reports.append((suite, report))
    print(f"\n{table(reports)}")
    return int(not all(report.ok for _, report in reports))


if __name__ == "__main__":
    sys.exit(main())
