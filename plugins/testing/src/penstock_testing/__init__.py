"""The testing kit, shipped in the wheel.

It has a manual clock, harnesses, simulated plants for rate estimators, the conformance checks for plugins, and the
throttle of repeated log events (``throttle.reset()`` before each test). Each name is imported when it is first used, as
in ``penstock``.
"""

from typing import TYPE_CHECKING

from penstock._exports import lazy_exports

_NAMES = {
    "penstock.runtime.clock": "ManualClock",
    "penstock.runtime.log": "throttle",
    "penstock_testing.block_store": "BlockStore",
    "penstock_testing.capabilities": "Capabilities",
    "penstock_testing.check": "Check CheckFailure all_checks",
    "penstock_testing.check_report": "Report Result",
    "penstock_testing.event_runs": "listener_events",
    "penstock_testing.fake_listener_context": "FakeListenerContext",
    "penstock_testing.feeder": "Feeder",
    "penstock_testing.file_feeder": "FileFeeder",
    "penstock_testing.http_feeder": "HttpFeeder",
    "penstock_testing.leak_meter": "LeakMeter",
    "penstock_testing.listener_probe": "Backend ListenerProbe MemoryBackend",
    "penstock_testing.memory_source": "MemoryFeeder MemorySource",
    "penstock_testing.plant": "PLANTS Plant",
    "penstock_testing.plant_report": "PlantReport processed report",
    "penstock_testing.plant_run": "MakeEstimator PlantRun SimulatedBatch simulate",
    "penstock_testing.plant_svg": "draw",
    "penstock_testing.receiver_harness": "ReceiverHarness",
    "penstock_testing.runner": "run_checks run_subject",
    "penstock_testing.stream_harness": "StreamHarness",
    "penstock_testing.subject": "Subject",
    "penstock_testing.suites": "BlockStoreSuite ConformanceSuite ListenerSuite RateEstimatorSuite ReceiverSuite",
    "penstock_testing.tcp_feeder": "TcpFeeder",
}
__getattr__, __dir__ = lazy_exports(__name__, _NAMES)

if TYPE_CHECKING:
    from penstock.runtime.clock import ManualClock as ManualClock
    from penstock.runtime.log import throttle as throttle
    from penstock_testing.block_store import BlockStore as BlockStore
    from penstock_testing.capabilities import Capabilities as Capabilities
    from penstock_testing.check import Check as Check
    from penstock_testing.check import CheckFailure as CheckFailure
    from penstock_testing.check import all_checks as all_checks
    from penstock_testing.check_report import Report as Report
    from penstock_testing.check_report import Result as Result
    from penstock_testing.event_runs import listener_events as listener_events
    from penstock_testing.fake_listener_context import FakeListenerContext as FakeListenerContext
    from penstock_testing.feeder import Feeder as Feeder
    from penstock_testing.file_feeder import FileFeeder as FileFeeder
    from penstock_testing.http_feeder import HttpFeeder as HttpFeeder
    from penstock_testing.leak_meter import LeakMeter as LeakMeter
    from penstock_testing.listener_probe import Backend as Backend
    from penstock_testing.listener_probe import ListenerProbe as ListenerProbe
    from penstock_testing.listener_probe import MemoryBackend as MemoryBackend
    from penstock_testing.memory_source import MemoryFeeder as MemoryFeeder
    from penstock_testing.memory_source import MemorySource as MemorySource
    from penstock_testing.plant import PLANTS as PLANTS
    from penstock_testing.plant import Plant as Plant
    from penstock_testing.plant_report import PlantReport as PlantReport
    from penstock_testing.plant_report import processed as processed
    from penstock_testing.plant_report import report as report
    from penstock_testing.plant_run import MakeEstimator as MakeEstimator
    from penstock_testing.plant_run import PlantRun as PlantRun
    from penstock_testing.plant_run import SimulatedBatch as SimulatedBatch
    from penstock_testing.plant_run import simulate as simulate
    from penstock_testing.plant_svg import draw as draw
    from penstock_testing.receiver_harness import ReceiverHarness as ReceiverHarness
    from penstock_testing.runner import run_checks as run_checks
    from penstock_testing.runner import run_subject as run_subject
    from penstock_testing.stream_harness import StreamHarness as StreamHarness
    from penstock_testing.subject import Subject as Subject
    from penstock_testing.suites import BlockStoreSuite as BlockStoreSuite
    from penstock_testing.suites import ConformanceSuite as ConformanceSuite
    from penstock_testing.suites import ListenerSuite as ListenerSuite
    from penstock_testing.suites import RateEstimatorSuite as RateEstimatorSuite
    from penstock_testing.suites import ReceiverSuite as ReceiverSuite
    from penstock_testing.tcp_feeder import TcpFeeder as TcpFeeder
