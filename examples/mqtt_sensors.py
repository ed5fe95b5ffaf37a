"""Writes the readings of MQTT sensors to Parquet, and acknowledges each once it is stored.

Needs: pip install penstock-spark[mqtt] pandas; a broker on its port 1883, which gets readings of sensors/+/temperature
Run: penstock run examples/mqtt_sensors.py BROKER_HOST FOLDER
"""

import sys

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext


def write(time, readings):
    # A batch that runs again after a crash replaces its own folder: each reading is there once.
    folder = f"{FOLDER}/time={time:%Y%m%dT%H%M%S%f}"
    columns = "split(topic, '/')[1] AS sensor", "CAST(value AS DOUBLE) AS celsius", "timestamp"
    if not readings.isEmpty():
        readings.selectExpr(*columns).write.mode("overwrite").parquet(folder)


def create():
    conf = SparkConf().setAppName("sensors")
    # Stored readings survive the receiver's host, so that they may be acknowledged before they are in a batch.
    conf.set("spark.streaming.receiver.writeAheadLog.enable", "true")
    ssc = StreamingContext(SparkContext(conf=conf), batchDuration=1)
    ssc.checkpoint(f"{FOLDER}-checkpoint")
    readings = ssc.receiverStream(
        "mqtt", host=HOST, port=1883, topics="sensors/+/temperature", client_id="temperatures", value_as="text"
    )
    readings.foreachDataFrame(write)
    return ssc


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    HOST, FOLDER = sys.argv[1:]
    ssc = StreamingContext.getOrCreate(f"{FOLDER}-checkpoint", create)
    ssc.run()
