"""The testing kit, shipped in the wheel.

It has a manual clock, harnesses, simulated plants for rate estimators, the conformance checks for plugins, and the
throttle of repeated log events (``throttle.reset()`` before each test). Each name is imported when it is first used, as
in ``penstock``.
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
    from penstock.testing.block_store import BlockStore as BlockStore
    from penstock.testing.capabilities import Capabilities as Capabilities
    from penstock.testing.check import Check as Check
    from penstock.testing.check import CheckFailure as CheckFailure
    from penstock.testing.check import all_checks as all_checks
    from penstock.testing.check_report import Report as Report
    from penstock.testing.check_report import Result as Result
    from penstock.testing.event_runs import listener_events as listener_events
    from penstock.testing.fake_listener_context import FakeListenerContext as FakeListenerContext
    from penstock.testing.feeder import Feeder as Feeder
    from penstock.testing.file_feeder import FileFeeder as FileFeeder
    from penstock.testing.http_feeder import HttpFeeder as HttpFeeder
    from penstock.testing.leak_meter import LeakMeter as LeakMeter
    from penstock.testing.listener_probe import Backend as Backend
    from penstock.testing.listener_probe import ListenerProbe as ListenerProbe
    from penstock.testing.listener_probe import MemoryBackend as MemoryBackend
    from penstock.testing.memory_source import MemoryFeeder as MemoryFeeder
    from penstock.testing.memory_source import MemorySource as MemorySource
    from penstock.testing.receiver_harness import ReceiverHarness as ReceiverHarness
    from penstock.testing.runner import run_checks as run_checks
    from penstock.testing.runner import run_subject as run_subject
    from penstock.testing.stream_harness import StreamHarness as StreamHarness
    from penstock.testing.subject import Subject as Subject
    from penstock.testing.suites import BlockStoreSuite as BlockStoreSuite
    from penstock.testing.suites import ConformanceSuite as ConformanceSuite
    from penstock.testing.suites import ListenerSuite as ListenerSuite
    from penstock.testing.suites import RateEstimatorSuite as RateEstimatorSuite
    from penstock.testing.suites import ReceiverSuite as ReceiverSuite
    from penstock.testing.tcp_feeder import TcpFeeder as TcpFeeder
