"""Inserts the payments that a webhook gets into a table of PostgreSQL, each batch once; others go to dead letters.

Needs: pip install "penstock-spark[http,tables]" psycopg; the database's password in the variable PAYMENTS_PASSWORD
Run: penstock run examples/webhook_payments.py PORT postgresql+psycopg://USER@HOST/DATABASE DIRECTORY
"""

import json
import sys

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext
from penstock_tables import to_sql


def create():
    conf = SparkConf().setAppName("payments")
    # A request is answered with 200 once it is stored where a crash does not reach it.
    conf.set("spark.streaming.receiver.writeAheadLog.enable", "true")
    conf.set("spark.penstock.onFailedBatch", "retry")  # while the database is away, batches wait
    ssc = StreamingContext(SparkContext(conf=conf), batchDuration=1)
    payments = ssc.receiverStream(
        "webhook",
        port=int(PORT),
        path="/payments",
        records="auto",  # the body, or the lines or elements of one with several payments
        value_as="json",  # another body is answered with 400
        columns=("value",),
    )
    to_sql(
        payments.map(json.loads),
        DATABASE,
        "payments",
        schema="id BIGINT, payer STRING, cents BIGINT",
        password="env:PAYMENTS_PASSWORD",
        dead_letter=f"{DIRECTORY}/dead-letters",  # such as a payment whose amount is no number
    )
    return ssc


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    PORT, DATABASE, DIRECTORY = sys.argv[1:]
    ssc = StreamingContext.getOrCreate(f"{DIRECTORY}/checkpoint", create)
    ssc.run()
