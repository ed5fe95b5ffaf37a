"""The receiver passes the conformance checks."""

from __future__ import annotations

from penstock_kafka.conformance import KafkaSuite


class TestKafka(KafkaSuite):
    pass
