"""``OutputJob``: what one output operation does for one batch.

Owns the value that the graph makes and the scheduler runs. Made on the generator's loop, run on the job pool.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from penstock.graph.call_site import CallSite


@frozen
class OutputJob:
    """A job.

    Attributes:
        output_op_id: of the output stream.
        call_site: where the program registered it.
        run: does it; on the job pool.
    """

    output_op_id: int
    call_site: CallSite
    run: Callable[[], object] = field(repr=False)
