"""Keeps a session for each user, which ends after two seconds without a click: mapWithState with a timeout.

Needs: nothing; it ends after nine seconds
Run: penstock run examples/sessions.py
"""

import tempfile

from pyspark import SparkContext

from penstock import StateSpec, StreamingContext


def session(user, page, state):
    if state.isTimingOut():
        return f"{user} left after {len(state.get())} pages"
    state.update([*(state.getOption() or []), page])
    return f"{user} is on {page}"


ssc = StreamingContext(SparkContext(appName="sessions"), batchDuration=1)
ssc.checkpoint(tempfile.mkdtemp())
clicks = ssc.queueStream([[("ann", "home"), ("bob", "home")], [("ann", "shop")], [], [("ann", "till")]])
sessions = clicks.mapWithState(StateSpec.function(session).timeout(2))
sessions.pprint()
ssc.run(9)
