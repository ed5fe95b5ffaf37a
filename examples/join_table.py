"""Joins a stream of orders with a static table of prices: transform and an RDD that stays in memory.

Needs: nothing; with HOST and PORT a server that sends lines "PRODUCT QUANTITY", such as nc -lk 9999
Run: penstock run examples/join_table.py [HOST PORT]
"""

import sys

from pyspark import SparkContext

from penstock import StreamingContext

if len(sys.argv) not in (1, 3):
    sys.exit(__doc__)

PRICES = [("tea", 2.5), ("coffee", 3.0), ("cake", 4.5)]


def order(line):
    product, quantity = line.split()
    return product, int(quantity)


sc = SparkContext(appName="join with a table")
ssc = StreamingContext(sc, batchDuration=1)

# Any RDD will do, from a file or a database. It is partitioned once, so that a batch shuffles its own orders only.
prices = sc.parallelize(PRICES).partitionBy(2).cache()

if sys.argv[1:]:
    lines = ssc.socketTextStream(sys.argv[1], int(sys.argv[2]))
else:
    numbers = ssc.receiverStream("synthetic", rate=10, shape="numbers")
    lines = numbers.map(lambda number: f"{PRICES[number % 3][0]} {number % 5 + 1}")
priced = lines.map(order).transform(lambda orders: orders.join(prices))  # leaves out products without a price
priced.mapValues(lambda both: both[0] * both[1]).reduceByKey(lambda a, b: a + b).pprint()

ssc.run()
