"""Executor allocation for Penstock: requests and releases executors by the load of the batches."""

from collections.abc import Iterable

from penstock import ListenerContext, hookimpl
from penstock_allocation.executor_allocation_manager import ExecutorAllocationManager, managers
from penstock_allocation.options import AllocationOptions

__all__ = ["AllocationOptions", "ExecutorAllocationManager"]

#: Prefix of configuration keys → the options class that reads them.
penstock_options = {"spark.streaming.dynamicAllocation.": AllocationOptions}


@hookimpl
def listeners(context: ListenerContext) -> Iterable[ExecutorAllocationManager]:
    """Offer the manager, when ``spark.streaming.dynamicAllocation.enabled`` is set."""
    return managers(context)
