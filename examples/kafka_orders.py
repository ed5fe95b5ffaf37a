"""Sums the orders of a Kafka topic over the last minute, every ten seconds, and writes each sum to a Delta table once.

Needs: pip install penstock-spark[kafka,tables]; a broker with a topic orders: {"product": "tea", "amount": 2}
Run: penstock run examples/kafka_orders.py BOOTSTRAP_SERVERS TABLE
"""

import json
import sys

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext
from penstock_tables import to_delta

WINDOW_S, SLIDE_S = 60, 10


def product_and_amount(order):
    fields = json.loads(order)
    return fields["product"], fields["amount"]


def with_time(time, sums):
    return sums.map(lambda pair: (time, *pair))


def create():
    conf = SparkConf().setAppName("orders")
    # Offsets are committed once the orders are stored where a crash does not reach them.
    conf.set("spark.streaming.receiver.writeAheadLog.enable", "true")
    ssc = StreamingContext(SparkContext(conf=conf), batchDuration=1)
    ssc.checkpoint(f"{TABLE}-checkpoint")
    orders = ssc.receiverStream(
        "kafka",
        bootstrap_servers=SERVERS,
        topics="orders",
        group_id="sums-of-orders",
        value_as="json",  # checked by the receiver
        dead_letter="orders-dead",  # a topic for values that are no JSON
    )
    sums = orders.map(product_and_amount).reduceByKeyAndWindow(lambda a, b: a + b, None, WINDOW_S, SLIDE_S)
    to_delta(sums.transform(with_time), TABLE, schema="until TIMESTAMP, product STRING, amount BIGINT")
    return ssc


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    SERVERS, TABLE = sys.argv[1:]
    ssc = StreamingContext.getOrCreate(f"{TABLE}-checkpoint", create)
    ssc.run()
