"""Test helpers used by more than one folder, imported as ``tests.helpers``. Importing them starts nothing."""

from tests.helpers.blocked import await_blocked
from tests.helpers.event_log import EventLog
from tests.helpers.functions import do_nothing, engine_of, graph_of, raiser, run_in_background
from tests.helpers.gate import Gate
from tests.helpers.processes import kill, listening_ports, remaining_processes
from tests.helpers.waiting import advance_until, wait_for

__all__ = [
    "EventLog",
    "Gate",
    "advance_until",
    "await_blocked",
    "do_nothing",
    "engine_of",
    "graph_of",
    "kill",
    "listening_ports",
    "raiser",
    "remaining_processes",
    "run_in_background",
    "wait_for",
]
