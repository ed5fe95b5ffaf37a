"""Conformance suite of the receiver ``synthetic``, for ``penstock plugins check``.

The receiver has no external source and so no feeder. Checks that need chosen records do not apply.
"""

from __future__ import annotations

from typing import ClassVar

from penstock_testing import Capabilities, ReceiverSuite


class SyntheticSuite(ReceiverSuite):
    """Records as fast as the rate limit permits."""

    name = "synthetic"
    options: ClassVar = {"rate": 0}
    capabilities = Capabilities(arrow=True)
