"""Writes the table of mutants, ``tests/mutants/README.md``: ``python -m tests.mutants.table``."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.mutant import Mutant, all_mutants

from penstock_testing import all_checks

PAGE = Path(__file__).with_name("README.md")
_HEAD = """\
# Mutants of the conformance checks

A mutant is a plugin that breaks the rule of one check. Each check has at least one mutant, which fails it with the text
below. `make test` runs each mutant against its own check. `python -m tests.mutants` runs each against every check of
its kind, and reports failures that the last column does not name. With `--live` it runs the mutants of the checks that
start Spark. `python -m tests.mutants.table` writes this page.

"""


def page() -> str:
    """The text of the page."""
    mutants = [*all_mutants(), *all_mutants(live=True)]
    rows = [_row(mutant) for mutant in mutants]
    total = f"{len(mutants)} mutants of {len({mutant.check for mutant in mutants})} checks.\n"
    columns = [
        "| check | mutant | what it does | text of the failure | other checks that it fails |",
        "|---" * 5 + "|",
    ]
    return _HEAD + "\n".join([total, *columns, *rows, ""])


def _row(mutant: Mutant) -> str:
    check = all_checks()[mutant.check]
    others = f"{', '.join(mutant.also)}: {mutant.because}" if mutant.also else ""
    cells = [f"{check.id} `{check.name}`", f"`{mutant.name}`", mutant.what, f"`{mutant.words}`", others]
    return f"| {' | '.join(cell.replace('``', '`').replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
