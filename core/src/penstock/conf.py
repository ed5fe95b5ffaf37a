"""Configuration: the typed settings, parsed from the text that the SparkConf holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, get_type_hints

import attrs
from attrs import field, frozen

from penstock.conf_keys import ConfigurationKeys
from penstock.conf_values import Key, LogLevel, type_name, value_of
from penstock.errors import ConfigurationError

_PREFIXES = ("spark.app.", "spark.redaction.", "spark.streaming.", "spark.penstock.")
#: Hook of a plugin → where the options of what it offers are set: ``<section><name>.<option>``.
OPTION_SECTIONS = {
    "receivers": "spark.penstock.receiver.",
    "input_streams": "spark.penstock.input.",
    "rate_estimators": "spark.streaming.backpressure.",
}


@frozen(kw_only=True, repr=False)
class Settings(ConfigurationKeys):
    """The configuration in force, made by :meth:`parse`, also on executors; its repr shows no values: maybe secrets."""

    #: Everything set below ``spark.streaming.`` and ``spark.penstock.``, known or not.
    _pairs: Mapping[str, str] = field(factory=dict, alias="pairs")

    @classmethod
    def parse(cls, pairs: Mapping[str, str]) -> Self:
        """Parse a configuration as Spark has it, text to text; keys that are not set get their defaults.

        Raises:
            ConfigurationError: a value is not valid; names the key, the value, the reason and what the key does.
        """
        values: dict[str, Any] = {}
        is_production = pairs.get(KEYS["profile"].name) == "production"
        for attribute, key in KEYS.items():
            if key.name not in pairs and key.falls_back_to is not None:
                key = KEYS[key.falls_back_to]
            default = key.in_production if is_production and key.in_production is not None else key.default
            values[attribute] = value_of(key.name, pairs.get(key.name, default), _TYPES[attribute], key.help)
        smallest, largest = values["partition_min_bytes"], values["partition_max_bytes"]
        if smallest > largest:
            raise ConfigurationError(
                f"{KEYS['partition_min_bytes'].name}={smallest} bytes is larger than "
                f"{KEYS['partition_max_bytes'].name}={largest} bytes: no partition can have both limits"
            )
        settings = cls(**values, pairs={name: text for name, text in pairs.items() if name.startswith(_PREFIXES)})
        _ = settings.log_levels  # invalid ones fail here
        return settings

    def with_plugins_defaults(self, in_production: Mapping[str, str]) -> Settings:
        """The settings with what plugins recommend for production, in that profile, for keys that are not set."""
        return Settings.parse({**in_production, **self._pairs}) if self.profile == "production" else self

    @property
    def log_levels(self) -> dict[str, str]:
        """The levels of single components, by name."""
        prefix, help = f"{key('log_level')}.", KEYS["log_level"].help
        return {name: value_of(prefix + name, text, LogLevel, help) for name, text in self.with_prefix(prefix).items()}

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the values of the keys below a prefix by the rest of their names: a plugin's options."""
        return {name.removeprefix(prefix): text for name, text in self._pairs.items() if name.startswith(prefix)}

    def is_set(self, attribute: str) -> bool:
        """Whether an attribute's own key is set, whatever its fallback and its default say."""
        return KEYS[attribute].name in self._pairs

    @property
    def first_rate_per_s(self) -> float | None:
        """The first rate that the program configured; ``None`` when it leaves that to the rate estimator."""
        if not self.is_set("initial_rate_per_s"):
            return None
        return min(filter(None, (self.initial_rate_per_s, self.max_rate_per_s)), default=None)

    @property
    def tolerates_failed_batches(self) -> bool:
        """Whether single failed batches are only in events and log: there is a limit, or they run again."""
        return self.max_failed_batches > 0 or self.on_failed_batch == "retry"

    def graceful_stop_s(self, batch_interval_ms: int) -> float:
        """The time that a graceful stop may take, seconds."""
        return (self.graceful_stop_timeout_ms or max(10 * batch_interval_ms, 60_000)) / 1000

    def __repr__(self) -> str:
        return f"Settings({', '.join(sorted(self._pairs))})"


_TYPES = get_type_hints(Settings, include_extras=True)
#: The keys by the attribute of :class:`Settings` that holds their value, in the order of the documentation.
KEYS: dict[str, Key] = {
    field.name: attrs.evolve(field.metadata["key"], type=type_name(_TYPES[field.name]))
    for field in attrs.fields(Settings)
    if "key" in field.metadata
}


def key(attribute: str) -> str:
    """The full key name of an attribute of :class:`Settings`, for messages."""
    return KEYS[attribute].name
