"""Whether Penstock knows each key of a configuration, and nothing ignores it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.conf import Settings
from penstock.conf_warnings import keys_without_effect
from penstock.plugins.discovery import Plugins
from penstock.runtime.log import components


def check_configuration(pairs: Mapping[str, str], place: str) -> None:
    """Fail if a key has no effect.

    Args:
        pairs: the configuration.
        place: names it in the failure.
    """
    options = Plugins().known_options() | {"spark.penstock.log.level.": components()}
    found = keys_without_effect(Settings.parse(pairs), options)
    # A fragment may choose an estimator and leave the rest to its page, which may also have a plugin of its own.
    assert [each for each in found if not re.match("rate control is off|no installed plugin", each.reason)] == [], place
