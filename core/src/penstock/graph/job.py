"""``Job``: what one output operation does for one batch; the graph generates it, the scheduler runs it."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from penstock.graph.call_site import CallSite


@frozen
class Job:
    """The job of one output operation in one batch.

    Attributes:
        output_op_id: id of the output operation.
        call_site: the line of the program that registered the output operation.
        run: runs the job, on a thread of the job pool.
    """

    output_op_id: int
    call_site: CallSite
    run: Callable[[], object] = field(repr=False)
