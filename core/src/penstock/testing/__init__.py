"""The testing kit, shipped in the wheel.

It has a manual clock, harnesses, simulated plants for rate estimators, and the throttle of repeated log events
(``throttle.reset()`` before each test). Each name is imported when it is first used, as in ``penstock``.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)

if TYPE_CHECKING:
    from penstock.rate.plant import PLANTS as PLANTS
    from penstock.rate.plant import Plant as Plant
    from penstock.rate.plant_report import PlantReport as PlantReport
    from penstock.rate.plant_report import processed as processed
    from penstock.rate.plant_report import report as report
    from penstock.rate.plant_run import MakeEstimator as MakeEstimator
    from penstock.rate.plant_run import PlantRun as PlantRun
    from penstock.rate.plant_run import SimulatedBatch as SimulatedBatch
    from penstock.rate.plant_run import simulate as simulate
    from penstock.rate.plant_svg import draw as draw
    from penstock.runtime.clock import ManualClock as ManualClock
    from penstock.runtime.log import throttle as throttle
    from penstock.testing.receiver_harness import ReceiverHarness as ReceiverHarness
    from penstock.testing.stream_harness import StreamHarness as StreamHarness
