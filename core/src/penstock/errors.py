"""The errors Penstock raises.

Owns the exception types and nothing else: a message says what happened, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def text_of(error: object) -> str:
    """An error's own words. The error may be the program's, and its words may fail."""
    try:
        return str(error)
    except Exception as failed:
        return f"(no text: {type(failed).__name__})"


class PenstockError(Exception):
    """Base of every error that Penstock itself raises."""


class ConfigurationError(PenstockError, ValueError):
    """A configuration value, an option or an argument cannot be used as it is."""


class UnknownNameError(ConfigurationError, LookupError):
    """A name that nothing answers to. Offers the nearest one that exists."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        near = get_close_matches(name, self.known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listing = ", ".join(self.known) or "none"
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {listing}.")

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, str, tuple[str, ...]]]:
        """Pickle by the arguments: the message is made from them."""
        return type(self), (self.kind, self.name, self.known)


class PluginError(PenstockError):
    """A plugin could not be loaded or did not keep its contract."""


class StreamingStateError(PenstockError, RuntimeError):
    """The call is not allowed in the state the context is in (not started, active, stopped)."""


class BatchFailedError(PenstockError):
    """User code or Spark failed while a batch was made or run; the cause is the original error."""


class StateUpdateError(PenstockError):
    """A state function failed for some keys: their state is as it was before the batch, that of the others went on."""


class StateGoneError(PenstockError):
    """A file of the states that ``mapWithState`` keeps is not there any more."""


class ReceiverStoppedError(PenstockError):
    """A store was asked of a receiver that is not running; the record was not stored."""


class ReceiverRefusedError(PenstockError):
    """The driver does not take this receiver (any more): it is stopping, or a newer one has its place."""


class ReceiverStuckError(PenstockError):
    """A receiver's ``onStart`` or ``onStop`` did not return within its deadline (``startTimeout``, ``stopTimeout``)."""


class ReceiverFailedError(PenstockError):
    """A receiver failed more often than its restart budget allows, and the application is to end with it."""


class StoreError(PenstockError):
    """A block could not be stored or was not accepted by the driver."""


class BlockGoneError(PenstockError):
    """A block that a batch needs can be read neither from its file nor from the host that had it, now or later."""


class BlockUnreachableError(PenstockError):
    """The host that has a block cannot be reached now: the task is to be tried again, nothing is lost yet."""


class CheckpointError(PenstockError):
    """A checkpoint cannot be read, or the program does not fit it."""


class WriteAheadLogError(CheckpointError):
    """An event could not be written to a write-ahead log, or the log is damaged."""


class BlockDamagedError(BlockGoneError):
    """A block's file is there, and its bytes are not those that were stored."""


class WireError(PenstockError):
    """The other side of a control connection could not be reached or refused the message."""


class JavaNotFoundError(PenstockError):
    """No Java that Spark can use was found on this machine."""
