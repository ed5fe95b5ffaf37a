"""Configuration: every key, its type, its default and its meaning.

Owns the list that ``docs/configuration.md`` is made from (``python -m penstock.conf``). Never reads the environment:
values come from the SparkConf. Times are in milliseconds once parsed, sizes in bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import field, frozen

from penstock.errors import ConfigurationError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MS_PER_UNIT = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES_PER_UNIT = {"b": 1} | {
    prefix + suffix: 1 << 10 * power for power, prefix in enumerate("kmgtp", 1) for suffix in ("", "b")
}
_LARGEST = 1 << 63
_QUANTITY = re.compile(r"\s*(-?\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def _quantity(text: str, units: Mapping[str, float], default_unit: str) -> int:
    match = _QUANTITY.fullmatch(text)
    unit = (match[2].lower() or default_unit) if match else ""
    if not match or unit not in units:
        raise ValueError(f"is not a whole number with one of the units {', '.join(units)}")
    quantity = int(match[1])
    if abs(quantity) > _LARGEST:
        raise ValueError("is too large")
    return int(quantity * units[unit])


def duration_ms(text: str) -> int:
    """Read a Spark time string (``200ms``, ``2s``, ``1h``; a bare number is milliseconds)."""
    return _quantity(text, _MS_PER_UNIT, "ms")


def size_bytes(text: str) -> int:
    """Read a Spark size string (``64m``, ``1g``; a bare number is bytes)."""
    return _quantity(text, _BYTES_PER_UNIT, "b")


def boolean(text: str) -> bool:
    """Read ``true`` or ``false``."""
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError("is neither true nor false")
    return text.strip().lower() == "true"


def names(text: str) -> tuple[str, ...]:
    """Read a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def rate_per_s(text: str) -> float:
    """Read a rate in records/s. Zero and below mean unlimited, as Spark documents it."""
    rate = float(text)
    if math.isnan(rate):
        raise ValueError("is not a number")
    return rate if rate > 0 else math.inf


def level(text: str) -> str:
    """Read the name of a logging level."""
    if text.strip().upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise ValueError("is none of DEBUG, INFO, WARNING, ERROR, CRITICAL")
    return text.strip().upper()


def one_of(*choices: str) -> Callable[[str], str]:
    """Make a parser that takes one of a few words."""

    def parse_choice(text: str) -> str:
        if text.strip() not in choices:
            raise ValueError(f"is none of {', '.join(choices)}")
        return text.strip()

    return parse_choice


def time_zone(text: str) -> ZoneInfo | None:
    """Read the name of a time zone; nothing is none."""
    if not text:
        return None
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not the name of a time zone") from None


def positive(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make of a parser one that refuses zero and below."""

    def parse_positive(text: str) -> T:
        value = parse(text)
        if not value > 0:  # type: ignore[operator]  # only used with numbers
            raise ValueError("must be greater than zero")
        return value

    return parse_positive


def not_negative(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make of a parser one that refuses what is below zero."""

    def parse_not_negative(text: str) -> T:
        value = parse(text)
        if value < 0:  # type: ignore[operator]  # only used with numbers
            raise ValueError("must not be negative")
        return value

    return parse_not_negative


@frozen
class Key(Generic[T_co]):
    """One configuration key."""

    name: str
    parse: Callable[[str], T_co]
    default: str
    meaning: str
    # The key whose value is used when this one is not set; the default comes after it.
    falls_back_to: Key[T_co] | None = field(default=None, kw_only=True)


KEYS: list[Key[Any]] = []


def _key(
    name: str, parse: Callable[[str], T], default: str, meaning: str, *, falls_back_to: Key[T] | None = None
) -> Key[T]:
    key = Key(name, parse, default, meaning, falls_back_to=falls_back_to)
    KEYS.append(key)
    return key


BLOCK_INTERVAL = _key(
    "spark.streaming.blockInterval",
    positive(duration_ms),
    "200ms",
    "How often what `store(record)` buffered is cut into a block.",
)
BLOCK_QUEUE_SIZE = _key(
    "spark.streaming.blockQueueSize",
    positive(int),
    "10",
    "Blocks that may wait between the cutting and the storing thread.",
)
RECEIVER_RESTART_DELAY = _key(
    "spark.streaming.receiverRestartDelay",
    not_negative(duration_ms),
    "2000",
    "Delay between `onStop` and `onStart` when a receiver restarts itself; doubles while nothing is stored in between, "
    "up to `spark.penstock.receiver.maxRelaunchDelay`.",
)
MAX_RATE = _key(
    "spark.streaming.receiver.maxRate",
    rate_per_s,
    "0",
    "Records/s that one receiver may store, in whatever form; zero or less: no limit.",
)
BACKPRESSURE_ENABLED = _key(
    "spark.streaming.backpressure.enabled", boolean, "false", "Steer each receiver's rate by what the batches take."
)
INITIAL_RATE = _key(
    "spark.streaming.backpressure.initialRate",
    rate_per_s,
    "0",
    "Records/s of a receiver until the first estimate.",
    falls_back_to=MAX_RATE,
)
RATE_ESTIMATOR = _key(
    "spark.streaming.backpressure.rateEstimator",
    str,
    "pid",
    "Name of the estimator, from any installed plugin (`penstock plugins list`).",
)
CONCURRENT_JOBS = _key(
    "spark.streaming.concurrentJobs",
    positive(int),
    "1",
    "Output operations that run at the same time. More than 1 gives up their order.",
)
GRACEFUL_STOP_TIMEOUT = _key(
    "spark.streaming.gracefulStopTimeout",
    not_negative(duration_ms),
    "0",
    "Deadline of a graceful stop as a whole; 0: ten batch intervals, at least 10 s.",
)
STOP_GRACEFULLY_ON_SHUTDOWN = _key(
    "spark.streaming.stopGracefullyOnShutdown",
    boolean,
    "false",
    "Stop gracefully when the program ends without calling `stop`.",
)
GENERATION_RETRIES = _key(
    "spark.penstock.generation.retries",
    not_negative(int),
    "2",
    "Further tries, with back-off, to make what an output of a batch needs (`transform` runs then) and to give a batch "
    "its blocks.",
)
MAX_FAILED_BATCHES = _key(
    "spark.penstock.maxFailedBatches",
    not_negative(int),
    "0",
    "After so many failed batches in a row the context stops, and `awaitTermination` raises that error and no other; "
    "0: it goes on, and `awaitTermination` raises the first failure.",
)
MAX_PENDING_BATCHES = _key(
    "spark.penstock.maxPendingBatches",
    not_negative(int),
    "0",
    "Batches that may wait or run at the same time; 0: no limit.",
)
ON_MAX_PENDING_BATCHES = _key(
    "spark.penstock.onMaxPendingBatches",
    one_of("pause", "drop-oldest"),
    "pause",
    "What happens at that limit. `pause`: no further batch is made; once one has to wait the receivers take nothing "
    "until there is room; `drop-oldest`: for each new batch the oldest that has not begun is given up, with its data.",
)
LATE_TICKS = _key(
    "spark.penstock.lateTicks",
    one_of("fire", "skip"),
    "fire",
    "What becomes of batch times missed while the driver stood still. `fire`: a batch each, back to back; `skip`: one "
    "batch, at the last of them, with all the data; windows that slide by several batches want `fire`, for they miss "
    "the turn that is skipped.",
)
TIME_ZONE = _key(
    "spark.penstock.timeZone",
    time_zone,
    "",
    "Zone of the batch times that functions get, such as `UTC` or `Europe/Zurich`; empty: local times without a zone, "
    "as PySpark gives them.",
)
CHECKPOINT_DIRECTORY = _key(
    "spark.streaming.checkpoint.directory", str, "", "As if the program called `checkpoint` with it."
)
UNPERSIST = _key(
    "spark.streaming.unpersist",
    boolean,
    "true",
    "Free a batch's persisted RDDs and delete its blocks once no stream needs them.",
)
PLUGINS_STRICT = _key(
    "spark.penstock.plugins.strict",
    boolean,
    "false",
    "Refuse to start when a plugin does not load, instead of leaving it out.",
)
PLUGINS_DISABLE = _key(
    "spark.penstock.plugins.disable", names, "", "Names of plugins (entry points) to skip, separated by commas."
)
LISTENER_QUEUE_SIZE = _key(
    "spark.penstock.listener.queueSize",
    positive(int),
    "10000",
    "Events that may wait for one listener; what does not fit is dropped for that listener and counted.",
)
LISTENER_MAX_FAILURES = _key(
    "spark.penstock.listener.maxFailures",
    positive(int),
    "10",
    "Errors in a row after which a listener is switched off.",
)
MAX_BUFFERED_RECORDS = _key(
    "spark.penstock.receiver.maxBufferedRecords",
    positive(int),
    "200000",
    "Records stored singly that may wait to become a block; at the bound `store` waits.",
)
MAX_BUFFERED_BYTES = _key(
    "spark.penstock.receiver.maxBufferedBytes",
    positive(size_bytes),
    "64m",
    "The same bound in bytes (`sys.getsizeof` of each record).",
)
STORE_RETRIES = _key(
    "spark.penstock.receiver.storeRetries",
    not_negative(int),
    "5",
    "Further tries, with back-off, to store a block or to have it accepted before the receiver fails.",
)
RELAUNCH_DELAY = _key(
    "spark.penstock.receiver.relaunchDelay",
    positive(duration_ms),
    "200ms",
    "Delay before a receiver whose task ended is launched again; doubles.",
)
MAX_RELAUNCH_DELAY = _key(
    "spark.penstock.receiver.maxRelaunchDelay", positive(duration_ms), "30s", "The longest such delay."
)
PARTITION_BYTES = _key(
    "spark.penstock.partitionBytes",
    positive(size_bytes),
    "1m",
    "Blocks of one host share a partition of a batch up to this size.",
)
WIRE_TIMEOUT = _key(
    "spark.penstock.wire.timeout", positive(duration_ms), "30s", "Longest wait for an answer on a control connection."
)
TLS_CERTIFICATE = _key(
    "spark.penstock.wire.tls.certificate",
    str,
    "",
    "PEM file with a host's certificate, at this path on every host; with the next two, connections are encrypted.",
)
TLS_KEY = _key("spark.penstock.wire.tls.key", str, "", "PEM file with the certificate's private key.")
TLS_AUTHORITY = _key(
    "spark.penstock.wire.tls.authority", str, "", "PEM file with the certificate that signed them all."
)
LOG_LEVEL = _key(
    "spark.penstock.log.level",
    level,
    "WARNING",
    "Level below which Penstock is silent, on the driver and in receivers.",
)


class Settings:
    """The values in force: what was set, and the defaults of the rest.

    Args:
        pairs: configuration as Spark has it, text to text.
    """

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self._pairs = {
            name: text for name, text in pairs.items() if name.startswith(("spark.streaming.", "spark.penstock."))
        }

    def __getitem__(self, key: Key[T]) -> T:
        """The value of a key.

        Raises:
            ConfigurationError: what was set cannot be read.
        """
        source: Key[T] = key
        while source.name not in self._pairs and source.falls_back_to is not None:
            source = source.falls_back_to
        text = self._pairs.get(source.name, source.default)
        try:
            return source.parse(text)
        except ValueError as error:
            raise ConfigurationError(f"{source.name}={text!r}: {error} ({source.meaning})") from None

    def under(self, prefix: str) -> dict[str, str]:
        """What was set below a prefix, by the rest of the name: a plugin's options."""
        return {name.removeprefix(prefix): text for name, text in self._pairs.items() if name.startswith(prefix)}

    def check(self) -> None:
        """Read every key once.

        Raises:
            ConfigurationError: one of them cannot be read.
        """
        for key in KEYS:
            self[key]

    def __repr__(self) -> str:
        """Names only: a plugin's option may be a secret."""
        return f"Settings({', '.join(sorted(self._pairs))})"


def as_markdown() -> str:
    """The table of ``docs/configuration.md``."""
    rows = [f"| `{key.name}` | {f'`{key.default}`' if key.default else '(empty)'} | {key.meaning} |" for key in KEYS]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(as_markdown())
