"""Conformance suite of the manager, run by ``penstock plugins check`` and the tests."""

from __future__ import annotations

from penstock import ListenerContext
from penstock_allocation.executor_allocation_manager import ExecutorAllocationManager
from penstock_allocation.options import AllocationOptions
from penstock_testing import ListenerProbe, ListenerSuite


class AllocationSuite(ListenerSuite):
    """The manager, with a decision after each batch."""

    name = "allocation"

    def make(self, context: ListenerContext) -> ListenerProbe:
        manager = ExecutorAllocationManager(context, AllocationOptions(enabled=True, scalingInterval=0.001))
        return ListenerProbe([manager], lambda: {"requested": manager.requested})
