"""Writes the requests of a webhook to Parquet files by Structured Streaming; a request is answered once it is stored.

Needs: pip install "penstock-spark[http]"; a client, such as curl -d '{"id": 1}' http://localhost:PORT/orders
Run: penstock run examples/webhook_structured.py PORT DIRECTORY
"""

import sys

from pyspark.sql import SparkSession

if len(sys.argv) != 3:
    sys.exit(__doc__)
port, directory = sys.argv[1:]
spark = SparkSession.builder.appName("webhook").getOrCreate()
orders = (
    spark.readStream.format("penstock")
    .schema("value STRING, timestamp TIMESTAMP")
    .option("receiver", "webhook")
    .option("port", port)
    .option("path", "/orders")
    .option("records", "auto")  # the body, or the lines or elements of one with several orders
    .option("value_as", "json")  # another body is answered with 400
    .option("columns", "value,timestamp")
    .option("blocks", f"{directory}/blocks")  # what was answered with 200 waits here for the query
    .load()
)
parsed = orders.selectExpr("timestamp", "from_json(value, 'id LONG, item STRING, quantity INT') AS entry")
query = (
    parsed.select("timestamp", "entry.*")
    .writeStream.format("parquet")
    .option("path", f"{directory}/orders")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(processingTime="1 second")
    .start()
)
query.awaitTermination()
