"""Creating what plugins offer, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.conf import OPTION_SECTIONS, Settings
from penstock.plugins.discovery import KINDS, Plugins
from penstock.plugins.specs import Spec, read_options


def make_by_name(plugins: Plugins, settings: Settings, hook: str, name: str, options: Mapping[str, Any]) -> Any:
    """Create what a plugin offers under a name.

    Args:
        plugins: the loaded plugins.
        settings: have the options that the configuration sets.
        hook: ``receivers`` or ``input_streams``.
        name: the spec's.
        options: option → value; they override the configuration.

    Raises:
        UnknownNameError: no plugin offers the name, or an option does not exist; names the nearest.
        ConfigurationError: an option is missing or its value is invalid.
    """
    spec = plugins.spec(hook, name)
    read = configured_options(hook, spec, options, settings)
    return spec.factory() if spec.options is None else spec.factory(read)


def configured_options(hook: str, spec: Spec, options: Mapping[str, Any], settings: Settings) -> Any:
    """The options of a spec: those given, and from the configuration those that are not.

    Raises:
        UnknownNameError: an option does not exist; names the nearest.
        ConfigurationError: an option is missing or its value is invalid.
    """
    prefix = f"{OPTION_SECTIONS[hook]}{spec.name}."
    return read_options(KINDS[hook][0], spec, options, settings.with_prefix(prefix), prefix)
