"""Counts the objects of the engine that a driver holds, to find what it never forgets."""

from __future__ import annotations

import gc
import types
from collections import Counter
from typing import Any

from pyspark import SparkContext

from penstock_testing.simulation.scheduler import Scheduler, SimulatedProcess, Task
from penstock_testing.simulation.simulated_cluster import SimulatedCluster
from penstock_testing.simulation.simulated_disk import SimulatedDisk
from penstock_testing.simulation.simulated_network import SimulatedNetwork
from penstock_testing.simulation.simulated_program import World

# They hold no objects of the driver alone: the program's code, and the simulation around the driver.
_CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)
_AROUND = (
    Scheduler,
    SimulatedProcess,
    Task,
    SimulatedCluster,
    SimulatedDisk,
    SimulatedNetwork,
    SparkContext,
    World,
)


def held_objects(root: object) -> Counter[str]:
    """The number of objects that can be reached from one, by the name of their class, for classes of Penstock.

    Entries of dictionaries, lists, sets and queues count under the name ``entries``.
    """
    counts: Counter[str] = Counter()
    # The objects, too, because the id of one that is gone may be used again.
    seen: dict[int, object] = {}
    waiting: list[Any] = [root]
    while waiting:
        held = waiting.pop()
        if id(held) in seen or isinstance(held, (*_CODE, *_AROUND)):
            continue
        seen[id(held)] = held
        kind = type(held)
        if kind.__module__.startswith("penstock"):
            counts[kind.__name__] += 1
        elif kind.__module__ in {"builtins", "collections"} and hasattr(held, "__len__"):
            counts["entries"] += 0 if isinstance(held, str | bytes | tuple) else len(held)
        if isinstance(held, types.FunctionType):
            # Not its globals.
            waiting += [held.__closure__, held.__defaults__]
        else:
            waiting += gc.get_referents(held)
    return counts
