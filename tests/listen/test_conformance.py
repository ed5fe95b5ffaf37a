"""``StatsReportListener`` passes the conformance checks of listeners."""

from penstock import ListenerContext, StatsReportListener
from penstock_testing import ListenerProbe, ListenerSuite


class TestStatsReportListener(ListenerSuite):
    def make(self, _context: ListenerContext) -> ListenerProbe:
        listener = StatsReportListener()
        return ListenerProbe(
            listener, lambda: {"last_batch": listener._infos[-1].batchTime if listener._infos else None}
        )
