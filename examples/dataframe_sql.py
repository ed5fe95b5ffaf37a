"""Queries every batch with SQL, joined with a table of the SparkSession.

Needs: pip install penstock-dataframes; with HOST and PORT a server that sends lines "PRODUCT QUANTITY"
Run: penstock run examples/dataframe_sql.py [HOST PORT]
"""

import sys

from pyspark import SparkConf
from pyspark.sql import SparkSession

from penstock import StreamingContext

if len(sys.argv) not in (1, 3):
    sys.exit(__doc__)

PRODUCTS = [("tea", 2.5), ("coffee", 3.0), ("cake", 4.5)]

conf = SparkConf().setAppName("SQL")
conf.set("spark.sql.shuffle.partitions", "2")  # 200 by default: too many for small batches
spark = SparkSession.builder.config(conf=conf).getOrCreate()
spark.createDataFrame(PRODUCTS, "product string, price double").createOrReplaceTempView("products")
ssc = StreamingContext(spark.sparkContext, batchDuration=1)

if sys.argv[1:]:
    lines = ssc.socketTextStream(sys.argv[1], int(sys.argv[2]))
else:
    numbers = ssc.receiverStream("synthetic", rate=10, shape="numbers")
    lines = numbers.map(lambda number: f"{PRODUCTS[number % 3][0]} {number % 5 + 1}")
orders = lines.map(str.split).map(lambda order: (order[0], int(order[1]))).toDF("product string, quantity int")
orders.sql("""
    SELECT product, sum(quantity) AS sold, sum(quantity * price) AS revenue
    FROM batch JOIN products USING (product)
    GROUP BY product ORDER BY revenue DESC
""").pprint()

ssc.run()
