"""Mutants of the receiver checks RC-01 to RC-09."""

from __future__ import annotations

import threading

from tests.mutants.mutant import Mutant
from tests.mutants.references import MemoryReceiver

from penstock import ThreadReceiver
from penstock.testing import MemoryFeeder


class NeverWakes(MemoryReceiver):
    """Does not close its connection."""

    def onStop(self) -> None:
        ThreadReceiver.onStop(self)


class LeavesThread(MemoryReceiver):
    """Starts a thread that nobody ends."""

    def onStart(self) -> None:
        threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()
        super().onStart()


MUTANTS = [
    Mutant(
        check="RC-06",
        words="has not ended",
        kind="receiver",
        make=NeverWakes,
        feeder=MemoryFeeder,
        also=("RC-08",),
    ),
    Mutant(check="RC-08", words="thread 'forgotten' is alive", kind="receiver", make=LeavesThread, feeder=MemoryFeeder),
]
