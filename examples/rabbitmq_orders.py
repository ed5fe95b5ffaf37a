"""Sums the orders of a RabbitMQ queue; orders that are no JSON go to a queue of dead letters.

Needs: pip install penstock-spark[rabbitmq]; a RabbitMQ on its port 5672 with queues orders and orders-dead
Run: penstock run examples/rabbitmq_orders.py RABBITMQ_HOST
"""

import json
import sys

from pyspark import SparkContext

from penstock import StreamingContext

if len(sys.argv) != 2:
    sys.exit(__doc__)
ssc = StreamingContext(SparkContext(appName="orders"), batchDuration=1)
orders = ssc.receiverStream(
    "rabbitmq",
    host=sys.argv[1],
    port=5672,
    queue="orders",
    value_as="json",  # checked by the receiver: each value is JSON
    columns="value",
    dead_letter="orders-dead",  # published there with the reason, then acknowledged
)
orders.map(json.loads).map(lambda order: (order["product"], order["amount"])).reduceByKey(lambda a, b: a + b).pprint()
ssc.run()
