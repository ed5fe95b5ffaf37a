"""Several instances in parallel, united: each reads its own part of the source, on its own core.

Run: penstock run --receivers 3 examples/receivers/parallel.py
"""

from penstock import ThreadReceiver


class Part(ThreadReceiver):
    def __init__(self, number, parts):
        self.number, self.parts = number, parts  # which part: each instance must read another one

    def receive(self):
        for value in range(self.number, 300, self.parts):
            self.store(value)
            if self.wait(0.001):
                return
        self.source_ended("all of my part")


def numbers(ssc, parts=3):
    return ssc.union(*(ssc.receiverStream(Part(number, parts)) for number in range(parts)))


if __name__ == "__main__":
    from pyspark import SparkContext

    from penstock import StreamingContext

    ssc = StreamingContext(SparkContext(appName="parallel"), 1)
    numbers(ssc).count().pprint()
    ssc.start()
    ssc.awaitTermination(5)
    ssc.stop(stopGracefully=True)
