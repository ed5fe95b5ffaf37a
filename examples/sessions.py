"""Who is there: a session for each user, ended by silence. Run it with `penstock run examples/sessions.py`."""

import tempfile

from pyspark import SparkContext

from penstock import StateSpec, StreamingContext


def session(user, page, state):
    if state.isTimingOut():
        return f"{user} left after {len(state.get())} pages"
    state.update([*(state.getOption() or []), page])
    return f"{user} is on {page}"


sc = SparkContext(appName="sessions")
ssc = StreamingContext(sc, batchDuration=1)
ssc.checkpoint(tempfile.mkdtemp())
clicks = ssc.queueStream([[("ann", "home"), ("bob", "home")], [("ann", "shop")], [], [("ann", "till")]])
sessions = clicks.mapWithState(StateSpec.function(session).timeout(2))
sessions.pprint()
ssc.start()
ssc.awaitTermination(9)
ssc.stop(stopGracefully=True)
