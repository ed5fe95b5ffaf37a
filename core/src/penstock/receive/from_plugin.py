"""Receivers by name, for engines that host them without a StreamingContext."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.conf import Settings
from penstock.errors import ConfigurationError, shown
from penstock.plugins.discovery import Plugins, configured_options
from penstock.plugins.specs import ReceiverSpec
from penstock.receive.receiver import Receiver


def receiver_spec(name: str, conf: Mapping[str, str] | None = None) -> ReceiverSpec:
    """Find the receiver that an installed plugin offers under a name.

    Args:
        name: the receiver's.
        conf: configuration by full key; ``spark.penstock.plugins.disable`` applies.

    Raises:
        UnknownNameError: no plugin offers the name; names the nearest.
    """
    spec: ReceiverSpec = Plugins(Settings.parse(conf or {}).plugins_disable).spec("receivers", name)
    return spec


def make_receiver(
    spec: ReceiverSpec, options: Mapping[str, Any], conf: Mapping[str, str] | None = None
) -> Receiver[Any]:
    """Create a receiver that a plugin offers, as ``ssc.receiverStream(name, **options)`` does.

    Args:
        spec: from ``receiver_spec``.
        options: option → value; text is converted to the option's type.
        conf: configuration by full key; ``spark.penstock.receiver.<name>.<option>`` sets what ``options`` does not.

    Raises:
        UnknownNameError: an option does not exist; names the nearest.
        ConfigurationError: an option is missing or its value is invalid, or the factory returned no receiver.
    """
    read = configured_options("receivers", spec, options, Settings.parse(conf or {}))
    receiver = spec.factory() if spec.options is None else spec.factory(read)
    if not isinstance(receiver, Receiver):
        raise ConfigurationError(
            f"the factory of the receiver {spec.name!r} returned {shown(receiver)}, not a penstock.Receiver"
        )
    return receiver
