"""Averages random readings each second, for ten seconds: a receiver in the program itself.

Needs: nothing
Run: penstock run examples/custom_receiver.py
"""

import random

from pyspark import SparkContext

from penstock import StreamingContext, ThreadReceiver


class Thermometers(ThreadReceiver):
    def receive(self):
        while not self.wait(0.01):  # True as soon as the receiver is to stop
            self.store((f"room {random.randint(1, 3)}", random.gauss(20, 2)))


sc = SparkContext(appName="thermometers")
ssc = StreamingContext(sc, batchDuration=1)
readings = ssc.receiverStream(Thermometers())
sums = readings.mapValues(lambda t: (t, 1)).reduceByKey(lambda a, b: (a[0] + b[0], a[1] + b[1]))
sums.mapValues(lambda s: round(s[0] / s[1], 1)).pprint()
ssc.run(10)
