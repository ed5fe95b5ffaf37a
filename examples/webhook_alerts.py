"""Posts an alert to a webhook when a batch fails or waits, or a receiver has an error: a listener.

Needs: a webhook that takes {"text": …}, as those of Slack and Mattermost do; without URL, alerts are printed
Run: penstock run examples/webhook_alerts.py [URL]
"""

import json
import sys
from urllib.request import Request, urlopen

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext, StreamingListener

INTERVAL_S = 1


class Alerts(StreamingListener):
    """Runs on a thread of its own: a slow webhook delays no batch."""

    def __init__(self, url):
        self.url = url

    def onBatchCompleted(self, batchCompleted):
        batch = batchCompleted.batchInfo
        for output in batch.outputOperationInfos.values():
            if output.failureReason:
                self.alert(f"{output.name} failed\n{output.failureReason}")
        if batch.schedulingDelay and batch.schedulingDelay > 5000 * INTERVAL_S:
            self.alert(f"batches wait for {batch.schedulingDelay / 1000:.0f} s")

    def onReceiverError(self, receiverError):
        receiver = receiverError.receiverInfo
        self.alert(f"{receiver.name}: {receiver.lastErrorMessage}")

    def alert(self, text):
        if self.url is None:
            print("alert:", text)
        else:
            body = json.dumps({"text": text}).encode()
            urlopen(Request(self.url, body, {"Content-Type": "application/json"}), timeout=10).close()


conf = SparkConf().setAppName("alerts")
conf.set("spark.penstock.maxFailedBatches", "10")  # a failed batch raises an alert; ten in a row end the program
ssc = StreamingContext(SparkContext(conf=conf), INTERVAL_S)
ssc.addStreamingListener(Alerts(sys.argv[1] if sys.argv[1:] else None))

numbers = ssc.receiverStream("synthetic", rate=50, shape="numbers")
numbers.map(lambda number: 1 // (number % 200)).count().pprint()  # now and then a division by zero

ssc.run()
