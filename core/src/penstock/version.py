"""The version of all distributions: they carry one."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from penstock.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__version__ = "0.1.0"
# A requirement of one version of the core; its marker.
_PINNED_CORE = re.compile(
    r"penstock[-_.]core\s*(?:\[[^\]]*\])?\s*\(?\s*==\s*([^\s;,)*]+)\s*\)?\s*(?:;(.*))?", re.IGNORECASE
)


def check_core_version(distribution: Distribution | None) -> None:
    """Refuse a distribution that needs another version of the core, before any of it is imported.

    Raises:
        PluginError: it does; names both versions.
    """
    requires: list[str] = []
    # Metadata that cannot be read pins nothing.
    with contextlib.suppress(Exception):
        requires = list(distribution.requires or ()) if distribution is not None else []
    for match in filter(None, map(_PINNED_CORE.fullmatch, requires)):
        version, marker = match.groups()
        if version != __version__ and "extra" not in (marker or ""):
            assert distribution is not None
            raise PluginError(
                f"{distribution.name} {distribution.version} needs penstock-core {version}, and {__version__} is "
                f"installed: install both in one version, pip install penstock-core=={version} or "
                f"pip install --upgrade {distribution.name}"
            )
