"""Which configured keys have no effect: unknown ones, and Spark's own that Penstock ignores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import SequenceMatcher, get_close_matches

from attrs import frozen

from penstock.conf import KEYS, OPTION_SECTIONS, Settings
from penstock.errors import plugin_distribution

_OURS = "spark.penstock."
# Minimum similarity of the parts of a key between dots, and of whole keys, whose beginnings are alike.
_LIKENESS, _WHOLE_LIKENESS = 0.8, 0.9
_WHOLE_FILES = "each block is one file of the receiver write-ahead log; nothing is rolled or kept open"
_LOG_CLASS = "custom write-ahead logs are not supported; unset the key"
_BATCHED = "events that wait are always written together; unset the key"
_FILES = "file streams keep no time window: they read each file once, whatever its age; see the option new_files_only"
_READ_BY_PLUGIN = "no installed plugin reads it; install one that does, or unset the key"
#: Keys and prefixes (those that end in a dot) of Spark that Penstock ignores → what to do instead.
IGNORED = {
    "spark.streaming.ui.retainedBatches": _READ_BY_PLUGIN,
    "spark.streaming.dynamicAllocation.": _READ_BY_PLUGIN,
    "spark.streaming.fileStream.minRememberDuration": _FILES,
    "spark.streaming.minRememberDuration": _FILES,
    "spark.streaming.receiver.blockStoreTimeout": "set the number of attempts: "
    "spark.streaming.receiver.writeAheadLog.maxFailures",
    "spark.streaming.raw.maxBlockSizeBytes": "set the option of the receiver of rawSocketStream that limits a frame",
    "spark.streaming.sessionByKey.deltaChainThreshold": "mapWithState has no delta chains; unset the key",
    "spark.streaming.clock": "pass the clock to the context: StreamingContext(sc, seconds, clock=...)",
    "spark.streaming.manualClock.jump": "advance the clock that was passed to the context",
    "spark.streaming.stopSparkContextByDefault": "call ssc.stop(stopSparkContext=...), as in PySpark",
    "spark.streaming.receiver.writeAheadLog.class": _LOG_CLASS,
    "spark.streaming.receiver.writeAheadLog.rollingIntervalSecs": _WHOLE_FILES,
    "spark.streaming.receiver.writeAheadLog.closeFileAfterWrite": _WHOLE_FILES,
    "spark.streaming.driver.writeAheadLog.class": _LOG_CLASS,
    "spark.streaming.driver.writeAheadLog.allowBatching": _BATCHED,
    "spark.streaming.driver.writeAheadLog.batchingTimeout": _BATCHED,
    "spark.streaming.kafka.": "Penstock has no direct Kafka stream; use a receiver plugin",
    "spark.streaming.kinesis.": "Penstock has no Kinesis stream; use a receiver plugin",
    "spark.streaming.driver.writeAheadLog.closeFileAfterWrite": "each file is closed after a write unless it is on a "
    "local disk; unset the key",
}


@frozen
class KeyWarning:
    """A configured key that has no effect, with the alternative or the nearest key as advice; empty for none."""

    key: str
    reason: str
    advice: str


#: Prefix of a plugin's options, such as ``spark.penstock.receiver.<name>.`` → their names; ``None`` for any name.
KnownOptions = Mapping[str, Collection[str] | None]


def keys_without_effect(settings: Settings, options: KnownOptions) -> list[KeyWarning]:
    """Return a warning for each unknown key below ``spark.penstock.`` and each ignored key of Spark's, sorted.

    Other keys below ``spark.streaming.`` get one only when they look like a misspelling: libraries may have keys there.
    A rate estimator other than the default gets one when rate control is off.
    """
    core_keys = {key.name for key in KEYS.values()}
    checked = (_check(name, core_keys, options) for name in sorted(settings.with_prefix("")) if name not in core_keys)
    warnings = [warning for warning in checked if warning is not None]
    if settings.rate_estimator != KEYS["rate_estimator"].default and not settings.backpressure_enabled:
        advice = f"set {KEYS['backpressure_enabled'].name}=true"
        warnings.append(KeyWarning(KEYS["rate_estimator"].name, "rate control is off", advice))
    return sorted(warnings, key=lambda warning: warning.key)


def _check(name: str, core_keys: set[str], options: KnownOptions) -> KeyWarning | None:
    for prefix, names in options.items():
        if name.startswith(prefix):
            option = name.removeprefix(prefix)
            if names is None or option in names:
                return None
            reason = "unknown component" if prefix == f"{KEYS['log_level'].name}." else "unknown option"
            return _unknown(name, reason, [prefix + match for match in get_close_matches(option, names, 1)])
    for ignored, advice in IGNORED.items():
        if name == ignored or (ignored.endswith(".") and name.startswith(ignored)):
            return KeyWarning(name, "ignored by Penstock", advice)
    option_keys = {f"{prefix}{option}" for prefix, names in options.items() for option in names or ()}
    for hook, section in OPTION_SECTIONS.items():
        plugin, dot, _option = name.removeprefix(section).partition(".")
        if name.startswith(section) and dot:
            kind = hook.removesuffix("s").replace("_", " ")
            reason = f"no installed plugin offers the {kind} {plugin!r}"
            return _unknown(name, reason, get_close_matches(name, option_keys, 1, _WHOLE_LIKENESS))
        if (key := f"{section}{name.removeprefix(_OURS)}") in option_keys:
            return _unknown(name, "unknown key", [key])
    candidates = [key for key in core_keys | set(IGNORED) if _resembles(name, key)]
    if matches := get_close_matches(name, candidates, 1):
        return _unknown(name, "unknown key", matches)
    if not name.startswith(_OURS):
        return None
    plugin, dot, _option = name.removeprefix(_OURS).partition(".")
    # A plugin reads its keys below its own name. The core has names of its own there, such as "checkpoint".
    is_plugins = dot and plugin.islower() and not any(key.startswith(f"{_OURS}{plugin}.") for key in core_keys)
    advice = f"if it is a plugin's: pip install {plugin_distribution(plugin)}" if is_plugins else ""
    return KeyWarning(name, "unknown key", advice)


def _unknown(name: str, reason: str, matches: list[str]) -> KeyWarning:
    return KeyWarning(name, reason, f"did you mean {matches[0]}?" if matches else "")


def _resembles(name: str, candidate: str) -> bool:
    """Whether every part between dots resembles the other's."""
    parts, others = name.split("."), candidate.split(".")
    return len(parts) == len(others) and all(
        SequenceMatcher(None, part, other).ratio() >= _LIKENESS for part, other in zip(parts, others, strict=True)
    )
