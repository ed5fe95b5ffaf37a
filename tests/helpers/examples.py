"""How many examples a property is tried on: few in every run, ten times as many in the profile ``thorough``."""

from __future__ import annotations

from hypothesis import settings

_EVERY_RUN = settings.get_profile("ci").max_examples
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=10 * _EVERY_RUN)


def examples(number: int) -> int:
    """The maximum of examples with the profile in use; ``number`` in every run."""
    return number * settings().max_examples // _EVERY_RUN
