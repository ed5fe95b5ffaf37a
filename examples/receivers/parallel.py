"""Reads a source with several receivers in parallel, each its own part on its own core, and unites their streams.

Needs: nothing; --receivers gives each a core
Run: penstock run --receivers 3 examples/receivers/parallel.py
"""

from pyspark import SparkContext

from penstock import StreamingContext, ThreadReceiver


class Part(ThreadReceiver):
    def __init__(self, number, parts):
        self.number = number
        self.parts = parts  # which part: each instance must read another one

    def receive(self):
        for value in range(self.number, 300, self.parts):
            self.store(value)
            if self.wait(0.001):
                return
        self.source_ended("all of my part")


def numbers(ssc, parts=3):
    return ssc.union(*(ssc.receiverStream(Part(number, parts)) for number in range(parts)))


if __name__ == "__main__":
    ssc = StreamingContext(SparkContext(appName="parallel"), batchDuration=1)
    numbers(ssc).count().pprint()
    ssc.run()
