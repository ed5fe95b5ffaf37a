"""The manager passes the conformance checks."""

from penstock_allocation.conformance import AllocationSuite


class TestAllocation(AllocationSuite):
    pass
