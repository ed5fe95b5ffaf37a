"""Configuration: every key, its type, its default and its meaning.

Owns the list that ``docs/configuration.md`` is made from (``python -m penstock.conf``). Never reads the environment:
values come from the SparkConf. Times are in milliseconds once parsed, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from penstock.conf_values import (
    boolean,
    duration_ms,
    level,
    names,
    not_negative,
    one_of,
    positive,
    rate_per_s,
    size_bytes,
    size_or_share,
    time_zone,
)
from penstock.errors import ConfigurationError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


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
MAX_TOTAL_RATE = _key(
    "spark.penstock.maxTotalRate",
    rate_per_s,
    "0",
    "Records/s that all receivers of the application may store together, in equal parts; whoever is held to less "
    "leaves the rest to the others; zero or less: no limit.",
)
BURST = _key(
    "spark.penstock.receiver.burst",
    positive(duration_ms),
    "200ms",
    "How long permits of the rate limit keep that a receiver has not used: over any time t it stores no more than "
    "rate x (t + burst) records, but always one. One `spark.streaming.blockInterval` when not set.",
    falls_back_to=BLOCK_INTERVAL,
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
    "Stop gracefully when the program ends without calling `stop`, and at SIGTERM and Ctrl-C; a second of these stops "
    "at once. A program's own handlers are called, too.",
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
DURABILITY = _key(
    "spark.penstock.writeAheadLog.durability",
    one_of("none", "flush", "fsync"),
    "flush",
    "What a write to the logs or of a checkpoint waits for. `fsync`: the disk; `flush`: the operating system, so that "
    "what was accepted outlives the driver's death, not the machine's; `none`: nothing.",
)
CHECKPOINT_REBUILD = _key(
    "spark.penstock.checkpoint.rebuild",
    boolean,
    "false",
    "Go on from a checkpoint with the program's streams as its code makes them now, not with those that were saved: "
    "code may change. Also without `getOrCreate`: the program that starts on a checkpoint directory goes on from it.",
)
CHECKPOINT_MISMATCH = _key(
    "spark.penstock.checkpoint.onMismatch",
    one_of("fail", "drop-state"),
    "fail",
    "What to do about saved state that has no place in a program that changed: `fail` to start, or `drop-state`.",
)
CATCH_UP = _key(
    "spark.penstock.checkpoint.catchUp",
    one_of("all", "skip-empty"),
    "all",
    "Which batches of the time between two runs are made: `all`, or `skip-empty`, which leaves out those without data "
    "when no window and no state needs them.",
)
CATCH_UP_BATCHES = _key(
    "spark.penstock.checkpoint.catchUpBatches",
    positive(int),
    "10",
    "How many batches of the time between two runs may be pending at once.",
)
CHECKPOINT_MAX_FAILURES = _key(
    "spark.penstock.checkpoint.maxFailures",
    positive(int),
    "3",
    "After so many checkpoints in a row that could not be written, `onCheckpointFailed` is told.",
)
SKIP_COMPLETED = _key(
    "spark.penstock.outputs.skipCompleted",
    boolean,
    "false",
    "Write down each output operation that is done, and do not repeat it when a later run repeats its batch.",
)
ON_DAMAGE = _key(
    "spark.penstock.checkpoint.onDamage",
    one_of("fail", "skip"),
    "fail",
    "What happens when a file that a context is to recover from is damaged where more follows, or lacks what is known "
    "to have been there. `fail`: it is refused, with its name and the place; `skip`: recovery goes on without what is "
    "lost, and says how much that is.",
)
JOURNAL_ROLLING_INTERVAL = _key(
    "spark.streaming.driver.writeAheadLog.rollingIntervalSecs",
    not_negative(int),
    "60",
    "Age, in seconds, at which the journal of blocks and batches is begun anew with the state as it is, and its old "
    "files are deleted; 16 MB of events do that, too.",
)
JOURNAL_MAX_FAILURES = _key(
    "spark.streaming.driver.writeAheadLog.maxFailures",
    positive(int),
    "3",
    "Tries, each with a file of its own, that a write to the journal gets before those who wait for it are refused.",
)
JOURNAL_CLOSE_AFTER_WRITE = _key(
    "spark.streaming.driver.writeAheadLog.closeFileAfterWrite",
    boolean,
    "false",
    "Close the journal's file after every write. On anything but a local disk it is always so: only what is closed is "
    "safe there.",
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
    "Records stored singly that may wait to become a block; at the bound `store` waits. Also the most that `store_all` "
    "takes for a block.",
)
MAX_BUFFERED_BYTES = _key(
    "spark.penstock.receiver.maxBufferedBytes",
    positive(size_bytes),
    "64m",
    "The same bound in bytes: `sys.getsizeof` of each record that is stored singly, the size of the block for "
    "`store_all`.",
)
STORE_RETRIES = _key(
    "spark.penstock.receiver.storeRetries",
    not_negative(int),
    "5",
    "Further tries, with back-off, to store a block or to have it accepted before the receiver fails.",
)
WRITE_AHEAD_LOG = _key(
    "spark.streaming.receiver.writeAheadLog.enable",
    boolean,
    "false",
    "Keep blocks in the checkpoint directory (`receivedData`), with checksums, instead of on the executors: they "
    "outlive receivers, executors and hosts.",
)
WRITE_AHEAD_LOG_MAX_FAILURES = _key(
    "spark.streaming.receiver.writeAheadLog.maxFailures",
    positive(int),
    "3",
    "Tries to write a block there before the store raises, in place of `spark.penstock.receiver.storeRetries`; a full "
    "disk is waited for.",
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
MAX_RESTARTS = _key(
    "spark.penstock.receiver.maxRestarts",
    not_negative(int),
    "10",
    "Failures of a receiver within `spark.penstock.receiver.restartWindow` that are made good by starting it again. A "
    "failure is an error that stops or restarts it, a death of its process, or a start or launch that takes too long.",
)
RESTART_WINDOW = _key(
    "spark.penstock.receiver.restartWindow", positive(duration_ms), "10min", "How long a failure counts."
)
ON_RECEIVER_FAILURE = _key(
    "spark.penstock.receiver.onFailure",
    one_of("restart", "stop-stream", "fail-application"),
    "restart",
    "What the next failure brings. `restart`: the receiver is called unhealthy (event, log, `receiver_infos()`) and "
    "started again all the same; `stop-stream`: it is given up, what it stored is processed, the others go on; "
    "`fail-application`: the context stops, and `awaitTermination` raises that error.",
)
LAUNCH_TIMEOUT = _key(
    "spark.penstock.receiver.launchTimeout",
    not_negative(duration_ms),
    "2min",
    "A receiver that has not registered so long after its launch, for want of a free slot, say, has failed: its job is "
    "cancelled and launched again; 0: it is waited for without end.",
)
START_TIMEOUT = _key(
    "spark.penstock.receiver.startTimeout",
    not_negative(duration_ms),
    "1min",
    "A receiver whose `onStart` has not returned and not stored anything in that time has failed: its process ends and "
    "it is launched again; one that stores in `onStart` is told of only; 0: it is waited for without end.",
)
STOP_TIMEOUT = _key(
    "spark.penstock.receiver.stopTimeout",
    not_negative(duration_ms),
    "5s",
    "A receiver whose `onStop` has not returned in that time is told of and waited for no longer: what it has buffered "
    "is stored, and its process ends. One that was to start itself again is launched again instead; 0: it is waited "
    "for without end.",
)
EXECUTORS_WAIT = _key(
    "spark.penstock.receiver.executorsWait",
    not_negative(duration_ms),
    "30s",
    "How long the first launches wait, on a cluster, for the executors that Spark was asked for.",
)
REBALANCE = _key(
    "spark.penstock.receiver.rebalance",
    boolean,
    "true",
    "Have receivers move, one at a time and with nothing lost, when executors join and another executor has two "
    "receivers less, or the preferred host one that is idle.",
)
ON_LOST_BLOCKS = _key(
    "spark.penstock.blocks.onLost",
    one_of("fail", "skip"),
    "fail",
    "What happens when a block that a batch needs is gone, with its host, say. `fail`: the batch fails; `skip`: it "
    "goes on without. Either way there is an event with counts.",
)
MAX_UNREAD = _key(
    "spark.penstock.blocks.maxUnread",
    size_or_share,
    "50%",
    "Stored data that no batch has processed yet, on one host: a size, or a share of the disk that blocks are on. "
    "Above it all receivers pause, until it is 80% of that; 0: no limit.",
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

    def misspelled(self) -> dict[str, str]:
        """What was set and means nothing, though a key has almost that name: by name, the key's."""
        known = {key.name for key in KEYS}
        found: dict[str, str] = {}
        for name in self._pairs.keys() - known:
            # Spark has more keys below its own prefix: there only one beside it can have been meant.
            family = "spark.penstock." if name.startswith("spark.penstock.") else name.rpartition(".")[0] + "."
            rests = {key.removeprefix(family): key for key in known if key.startswith(family)}
            near = get_close_matches(name.removeprefix(family), rests, 1, 0.8)
            if near and rests[near[0]].count(".") == name.count("."):
                found[name] = rests[near[0]]
        return found

    def __repr__(self) -> str:
        """Names only: a plugin's option may be a secret."""
        return f"Settings({', '.join(sorted(self._pairs))})"


def as_markdown() -> str:
    """The table of ``docs/configuration.md``."""
    rows = [f"| `{key.name}` | {f'`{key.default}`' if key.default else '(empty)'} | {key.meaning} |" for key in KEYS]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(as_markdown())
