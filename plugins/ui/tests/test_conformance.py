"""The monitor passes the conformance checks."""

from penstock_ui.conformance import MonitorSuite


class TestMonitor(MonitorSuite):
    pass
