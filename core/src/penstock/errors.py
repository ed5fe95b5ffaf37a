"""The exceptions that Penstock raises. A message says what happened, with which value, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

# Text without a colon contains no password: Azure has the container there.
_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
# Lone surrogates, and control characters except tab and the ends of lines.
_UNPRINTABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def text_of(error: object) -> str:
    """The text of an error of the program; never raises."""
    try:
        return str(error)
    except Exception as failed:
        return f"(no text: {type(failed).__name__})"


def printable(text: str) -> str:
    """A text that every reader can show: U+FFFD in place of lone surrogates and control characters.

    UTF-8 cannot encode lone surrogates, which ``surrogateescape`` decodes bytes to. Terminals obey control characters.
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def shortened(text: str, longest: int = 100) -> str:
    """A text for a message, which may come from data: cut after 100 characters, or after ``longest``."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def shown(value: object) -> str:
    """A value of the program for a message: its repr, cut after 100 characters; never raises."""
    try:
        return shortened(repr(value))
    except Exception:
        return f"an instance of {type(value).__name__}"


def without_password(text: str) -> str:
    """A text without the passwords of its URIs: ``s3://key:***@bucket``."""
    return _PASSWORD.sub(r"\1***@", text) if "://" in text else text


def other_version(what: str, version: object, readable: int) -> str:
    """Message for a file with an unsupported format version."""
    return (
        f"{what} has format version {shown(version)} and this version of Penstock reads version {readable}: run the "
        "version of Penstock that wrote it"
    )


def plugin_distribution(plugin: str) -> str:
    """The usual name of the distribution with a plugin, for messages that suggest to install it."""
    return f"penstock-{plugin}"


def how_to_install(name: str) -> str:
    """The command that installs a receiver, an input stream or a rate estimator; its plugin may have another name."""
    whole = "pip install penstock-spark, which has the common plugins"
    return f"{whole}, or {plugin_distribution(name)}" if name.isascii() and name.isidentifier() else whole


def summary_of(error: BaseException) -> str:
    """Return an error's class and text: ``OSError: disk full``."""
    return f"{type(error).__name__}: {text}" if (text := text_of(error)) else type(error).__name__


class PenstockError(Exception):
    """Base class of all errors that Penstock raises. The message has no passwords of URIs."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_password(item) if isinstance(item, str) else item for item in args))


class ConfigurationError(PenstockError, ValueError):
    """A configuration value, an option or an argument is invalid."""


class UnknownNameError(ConfigurationError, LookupError):
    """An unknown name, for instance of a receiver. The message suggests the nearest known one."""

    def __init__(self, kind: str, name: str, known_names: Iterable[str], owner: str = "", advice: str = "") -> None:
        names = sorted(known_names)
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listing = ", ".join(names) or "none"
        super().__init__(
            f"unknown {kind} {shown(name)}{owner and f' of {owner}'}.{hint} Known: {listing}.{advice and f' {advice}'}"
        )
        # Pickled by its arguments, because the message alone does not recreate the error.
        self._arguments = (kind, name, names, owner, advice)

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[Any, ...]]:
        return type(self), self._arguments


class PluginError(PenstockError):
    """A plugin cannot be loaded or violates its contract."""


class StreamingStateError(PenstockError, RuntimeError):
    """The call is not allowed in the context's current state (not started, active, stopped)."""


class BatchFailedError(PenstockError):
    """User code or Spark failed while a batch was generated or run; the cause is the original error."""


class SchemaError(PenstockError):
    """Records do not fit the schema of a DataFrame."""


class ResultTypeError(PenstockError, TypeError):
    """A function of the program returned something else than its operator needs, so that another attempt is useless."""


class ReceiverStoppedError(PenstockError):
    """``store`` was called on a receiver that is not running; the record was not stored."""


class ReceiverRefusedError(PenstockError):
    """The driver refused a receiver: it is stopping, or a newer launch has replaced the receiver."""


class ReceiverStuckError(PenstockError):
    """``onStart`` or ``onStop`` did not return within ``spark.penstock.receiver.startTimeout`` or ``….stopTimeout``."""


class ReceiverFailedError(PenstockError):
    """A receiver used up its failure budget, and ``spark.penstock.receiver.onFailure`` is ``fail-application``."""


class StoreError(PenstockError):
    """A block could not be stored, or the driver did not accept it."""


class BlockGoneError(PenstockError):
    """A block is lost: neither its file nor the host that stored it has it any more."""


class BlockUnreachableError(PenstockError):
    """The host that stores a block cannot be reached. Nothing is lost yet; Spark retries the task."""


class CheckpointError(PenstockError):
    """A checkpoint cannot be read, or does not match the program."""


class WriteAheadLogError(CheckpointError):
    """An event could not be written to a write-ahead log, or the log is corrupt."""


class ClaimLostError(WriteAheadLogError):
    """Another driver has taken over the checkpoint directory: what this one writes counts no more."""


class BlockDamagedError(BlockGoneError):
    """The file of a block is corrupt: its checksum does not match."""


class WireError(PenstockError):
    """The other end of a control connection cannot be reached, or refused the request."""
