"""Every Penstock receiver as a source of Structured Streaming: ``spark.readStream.format("penstock")``."""

from penstock_structured.data_source import PenstockDataSource
from penstock_structured.steering import RateSteering, steer

__all__ = ["PenstockDataSource", "RateSteering", "steer"]
