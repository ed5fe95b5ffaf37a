"""The testing kit: a manual clock, harnesses, conformance suites for plugins, simulated workloads for rate estimators.

It is also a plugin of pytest. ``throttle`` is that of repeated log events (``throttle.reset()`` before each test). Each
name is imported when it is first used, as in ``penstock``.
"""

from typing import TYPE_CHECKING

from penstock.spi import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)

if TYPE_CHECKING:
    from penstock.spi import throttle as throttle
    from penstock_testing.capabilities import Capabilities as Capabilities
    from penstock_testing.check import Check as Check
    from penstock_testing.check import CheckFailure as CheckFailure
    from penstock_testing.check_report import Report as Report
    from penstock_testing.check_report import Result as Result
    from penstock_testing.event_runs import listener_events as listener_events
    from penstock_testing.fake_listener_context import FakeListenerContext as FakeListenerContext
    from penstock_testing.feeder import Feeder as Feeder
    from penstock_testing.file_feeder import FileFeeder as FileFeeder
    from penstock_testing.leaks import LeakMeter as LeakMeter
    from penstock_testing.listener_probe import Backend as Backend
    from penstock_testing.listener_probe import ListenerProbe as ListenerProbe
    from penstock_testing.listener_probe import MemoryBackend as MemoryBackend
    from penstock_testing.manual_clock import ManualClock as ManualClock
    from penstock_testing.memory_source import MemoryFeeder as MemoryFeeder
    from penstock_testing.memory_source import MemorySource as MemorySource
    from penstock_testing.receiver_harness import ReceiverHarness as ReceiverHarness
    from penstock_testing.stream_harness import StreamHarness as StreamHarness
    from penstock_testing.suite_run import run_checks as run_checks
    from penstock_testing.suite_run import run_suite as run_suite
    from penstock_testing.suites import BlockStoreSuite as BlockStoreSuite
    from penstock_testing.suites import ConformanceSuite as ConformanceSuite
    from penstock_testing.suites import ListenerSuite as ListenerSuite
    from penstock_testing.suites import PluginSuite as PluginSuite
    from penstock_testing.suites import RateEstimatorSuite as RateEstimatorSuite
    from penstock_testing.suites import ReceiverSuite as ReceiverSuite
    from penstock_testing.suites import all_checks as all_checks
    from penstock_testing.suites import checks_for as checks_for
    from penstock_testing.tcp_feeder import TcpFeeder as TcpFeeder
    from penstock_testing.workload import WORKLOADS as WORKLOADS
    from penstock_testing.workload import Workload as Workload
    from penstock_testing.workload_report import WorkloadReport as WorkloadReport
    from penstock_testing.workload_report import processed as processed
    from penstock_testing.workload_report import report as report
    from penstock_testing.workload_run import MakeEstimator as MakeEstimator
    from penstock_testing.workload_run import SimulatedBatch as SimulatedBatch
    from penstock_testing.workload_run import WorkloadRun as WorkloadRun
    from penstock_testing.workload_run import simulate as simulate
    from penstock_testing.workload_svg import draw as draw
