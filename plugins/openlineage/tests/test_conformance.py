"""The listener passes the conformance checks."""

from penstock_openlineage.conformance import LineageSuite


class TestLineage(LineageSuite):
    pass
