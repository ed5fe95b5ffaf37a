"""Detects secret values by the names of their keys, and removes them from log lines.

Checkpoints leave such values out; error events of receivers show ``***`` for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Self

from attrs import frozen

from penstock.errors import ConfigurationError, shown

_KEY = "spark.redaction.regex"
# The names that Spark's default matches, and further names of secrets.
_NAMES = r"(?i:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access|private|account)[-._]?key)"
# Python takes flags for a part of a pattern only in the form ``(?i:…)``.
_FLAGS = re.compile(r"\(\?([imsx]+)\)")
_HIDDEN = "***"
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s,;&)\]}]+)"
_PATTERNS = (
    (re.compile(r"(://)[^/\s@]+@"), rf"\1{_HIDDEN}@"),
    (re.compile(r"(Bearer\s+|Authorization\W+\w+\s+)[^\s'\"]+", re.IGNORECASE), rf"\1{_HIDDEN}"),
)
# Shorter secrets are parts of ordinary words.
_MIN_SECRET = 4


def secret_names(conf: Mapping[str, str]) -> re.Pattern[str]:
    """Return the pattern that matches the names of secret configuration keys, options and environment variables.

    ``spark.redaction.regex`` in the configuration adds names to the usual ones. Raises ``ConfigurationError`` if its
    value is not a valid Python regular expression.
    """
    regex = conf.get(_KEY, "")
    if not regex:
        return re.compile(_NAMES)
    flags = match[1] if (match := _FLAGS.match(regex)) else ""
    try:
        return re.compile(f"(?:{_NAMES}|(?{flags}:{_FLAGS.sub('', regex, count=1)}))")
    except re.error as error:
        raise ConfigurationError(
            f"{_KEY}={shown(regex)} is not a valid Python regular expression: {error}. Penstock uses it to redact "
            "secrets; use only syntax common to Java and Python"
        ) from None


@frozen
class Redaction:
    """Replaces secrets in lines: known values, passwords in URLs, and values after names such as ``password``."""

    names: re.Pattern[str]
    values: tuple[str, ...]

    @classmethod
    def of(cls, names: re.Pattern[str], values: Iterable[str]) -> Self:
        """The redaction for these names of secrets and known values, which may be parts of each other."""
        return cls(
            names, tuple(sorted({value for value in values if len(value) >= _MIN_SECRET}, key=len, reverse=True))
        )

    def apply(self, line: str) -> str:
        """Return a line without secrets."""
        for value in self.values:
            line = line.replace(value, _HIDDEN)
        for pattern, replacement in _PATTERNS:
            line = pattern.sub(replacement, line)
        return re.sub(rf"((?:{self.names.pattern})[\w.-]*['\"]?\s*[=:]\s*){_VALUE}", rf"\1{_HIDDEN}", line)
