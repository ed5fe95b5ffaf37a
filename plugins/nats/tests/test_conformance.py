"""The receiver ``nats`` passes the conformance checks."""

from __future__ import annotations

from penstock_nats.conformance import NatsSuite


class TestNats(NatsSuite):
    pass
