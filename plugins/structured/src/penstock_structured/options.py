"""The options of ``spark.readStream.format("penstock")``: the source's own, the receiver's, and configuration keys.

Spark passes them as text, with names in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from penstock import ConfigurationError, Receiver, ReceiverSpec
from penstock.spi import KEYS, Plugins, PositiveBytes, Settings, UnknownNameError, shown, structure_options

_RECEIVER = "receiver."
#: Announces that ``steer`` will set the receiver's rate.
BACKPRESSURE = "spark.streaming.backpressure.enabled"
_INITIAL_RATE = "spark.streaming.backpressure.initialRate"


def _positive(_options: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{attribute.name}={value!r}: must be greater than 0")


def _absolute(_options: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not Path(value).is_absolute():
        raise ValueError(f"{attribute.name}={value!r}: must be an absolute path on the driver's host")


@frozen
class SourceOptions:
    """The source's own options.

    Attributes:
        receiver: name of a receiver (``penstock plugins list``).
        blocks: absolute path of the query's directory of blocks on the driver's host. Each query needs its own.
        durable: whether a block is on the disk before ``store_all`` returns. Otherwise the operating system writes it
            later: the block survives a crash of any process, but not a power failure.
        failOnDataLoss: whether the query fails when blocks are lost; otherwise it continues without them.
        initialRate: rate limit until ``steer`` sets one, records/s; ``None`` for no limit, or for a slow start with
            ``spark.streaming.backpressure.enabled=true``.
        maxRowsPerTrigger: maximum rows of a batch. A batch contains at least one block.
        maxBytesPerTrigger: maximum bytes of a batch.
        maxBlocksBytes: the receiver pauses while the stored blocks have more bytes than this.
        partitionBytes: bytes of blocks that one task reads; a task reads at least one block.
        address: address at which executors on other hosts fetch blocks from the driver's host; empty: not served.
        quietPeriod: with ``Trigger.AvailableNow``, the receiver has stored all available data after running this long,
            in seconds, without storing and without an error.
        availableNowTimeout: with ``Trigger.AvailableNow``, the longest time to receive, in seconds.
    """

    receiver: str
    blocks: str = field(validator=_absolute)
    durable: bool = True
    failOnDataLoss: bool = True
    initialRate: float | None = field(default=None, validator=_positive)
    maxRowsPerTrigger: int | None = field(default=None, validator=_positive)
    maxBytesPerTrigger: PositiveBytes | None = None
    maxBlocksBytes: PositiveBytes = 10 << 30
    partitionBytes: PositiveBytes = 32 << 20
    address: str = ""
    quietPeriod: float = field(default=2.0, validator=_positive)
    availableNowTimeout: float = field(default=60.0, validator=_positive)


@frozen
class Source:
    """All options of one source, validated. Sent to every process that plans or reads.

    Attributes:
        options: the source's own.
        receiver_options: option → text.
        conf: configuration by full key.
    """

    options: SourceOptions
    receiver_options: dict[str, str] = field(repr=False)
    conf: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Source:
        """Sort and check options.

        Args:
            options: name → text; names in any case. A name that begins with ``spark.`` is a configuration key. One that
                begins with ``receiver.`` is an option of the receiver; the prefix is optional.

        Raises:
            UnknownNameError: the receiver or an option does not exist; the message suggests the nearest name.
            ConfigurationError: an option is missing or its value is invalid.
        """
        own = {option.name.lower(): option.name for option in attrs.fields(SourceOptions)}
        known_keys = {key.name.lower(): key.name for key in KEYS.values()}
        conf = {known_keys.get(name.lower(), name): text for name, text in options.items() if _is_key(name)}
        source = {own[name.lower()]: text for name, text in options.items() if name.lower() in own}
        if "receiver" not in source:
            raise ConfigurationError(
                "the source 'penstock' needs the option 'receiver', the name of an installed receiver: "
                '.option("receiver", "socket"); `penstock plugins list` shows them'
            )
        spec: ReceiverSpec = _plugins(Settings.parse(conf)).spec("receivers", source["receiver"])
        names = {option.name.lower(): option.name for option in _fields(spec)}
        section = f"spark.penstock.receiver.{spec.name}."
        known_keys |= {(section + option).lower(): section + option for option in names.values()}
        conf = {_known_key(name, known_keys): text for name, text in conf.items()}
        rest = {name: text for name, text in options.items() if not _is_key(name) and name.lower() not in own}
        receiver_options = {}
        for name, text in rest.items():
            plain = name.lower().removeprefix(_RECEIVER)
            if plain not in names:
                names_offered = [*own.values(), *names.values()]
                raise UnknownNameError(
                    "option", name, names_offered, owner=f"the source with the receiver {spec.name!r}"
                )
            receiver_options[names[plain]] = text
        advice = '.option("{option}", …)'
        shared = [name for name in source if name.lower() in names]
        try:
            checked = cls(
                structure_options("the source 'penstock'", SourceOptions, source, advice=advice), receiver_options, conf
            )
            checked.make_receiver()
        except ConfigurationError as error:
            raise _with_prefixes(error, spec.name, shared) from None
        return checked

    @property
    def initial_rate(self) -> float | None:
        """Records/s until ``steer`` sets a rate, from the option or Penstock's key; ``None`` for no limit."""
        rate = self.options.initialRate or float(self.conf.get(_INITIAL_RATE, 0))
        return rate if rate > 0 else None

    @property
    def is_steered(self) -> bool:
        """Whether the program has announced that ``steer`` will set the rate."""
        return self.conf.get(BACKPRESSURE, "").strip().lower() == "true"

    def make_receiver(self) -> Receiver[Any]:
        """Create the receiver.

        Raises:
            UnknownNameError: the receiver or an option does not exist; names the nearest.
            ConfigurationError: an option is missing or its value is invalid.
        """
        name, settings = self.options.receiver, Settings.parse(self.conf)
        receiver = _plugins(settings).make("receivers", name, settings, self.receiver_options)
        if not isinstance(receiver, Receiver):
            raise ConfigurationError(
                f"the factory of the receiver {name!r} returned {shown(receiver)}, not a penstock.Receiver"
            )
        return receiver


def _with_prefixes(error: ConfigurationError, receiver: str, shared: Sequence[str]) -> ConfigurationError:
    """Add to an error that the source has taken options whose names the receiver has, too."""
    if not shared:
        return error
    name = shared[0]
    hint = (
        f"{' and '.join(shared)} set options of the source, and the receiver {receiver!r} has options of that name: "
        f'.option("{_RECEIVER}{name}", …) sets that of the receiver'
    )
    return ConfigurationError(f"{error}. {hint}")


def _plugins(settings: Settings) -> Plugins:
    return Plugins(settings.plugins_disable, prefer=settings.plugins_prefer)


def _fields(spec: ReceiverSpec) -> tuple[attrs.Attribute[Any], ...]:
    return () if spec.options is None else attrs.fields(spec.options)


def _known_key(name: str, keys: Mapping[str, str]) -> str:
    """Return the correct spelling of a key; raise if neither the core nor the receiver has it.

    Args:
        name: the key in any case.
        keys: key in lower case → key.
    """
    if (key := keys.get(name.lower())) is not None:
        return key
    near = get_close_matches(name.lower(), keys, n=1, cutoff=0.7)
    hint = f" Did you mean {keys[near[0]]!r}?" if near else ""
    raise ConfigurationError(
        f"unknown configuration key {name!r} of the source 'penstock'.{hint} `penstock conf list` lists all "
        "keys; those of Spark SQL belong to the session"
    )


def _is_key(name: str) -> bool:
    return name.lower().startswith("spark.")
