"""Mutants that behave as the original does, each with the reason: the report counts them, and no test is run."""

from __future__ import annotations

from attrs import frozen
from tests.mutation.mutations import Mutant


@frozen
class Equivalent:
    """Mutants of one line that need no test.

    Attributes:
        function: with its module below ``penstock``.
        source: part of the text of the line.
        change: what the mutant changes, as the report shows it.
        reason: why no test can tell the mutant from the original, or why none should.
    """

    function: str
    source: str
    change: str
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        return (
            f"penstock.{self.function}" == f"{mutant.module}.{mutant.function}"
            and self.source in mutant.source
            and self.change == f"{mutant.before}  ->  {mutant.after}"
        )


EQUIVALENTS: tuple[Equivalent, ...] = ()


def is_equivalent(mutant: Mutant) -> bool:
    """Whether the mutant is on the list."""
    return any(equivalent.covers(mutant) for equivalent in EQUIVALENTS)
