"""The testing kit: manual clock, harnesses, conformance suites for plugins, simulated workloads, a simulator.

It is also a plugin of pytest. ``throttle`` is that of repeated log events (``throttle.reset()`` before each test). Each
name is imported when it is first used, as in ``penstock``.
"""

from importlib.metadata import distributions
from typing import TYPE_CHECKING

from penstock.spi import check_core_version, lazy_exports

check_core_version(next(iter(distributions(name="penstock-testing")), None))

_GONE = {
    "BlockStore": "return an object with the hook store from BlockStoreSuite.make",
    "HttpFeeder": "derive a class from Feeder",
    "PLANTS": "use WORKLOADS",
    "Plant": "use Workload",
    "PlantReport": "use WorkloadReport",
    "PlantRun": "use WorkloadRun",
    "Subject": "derive a class from a suite, or call run_checks",
    "run_subject": "use run_suite",
}
__getattr__, __dir__ = lazy_exports(__name__, _GONE)

if TYPE_CHECKING:
    from penstock.spi import throttle as throttle
    from penstock_testing.capabilities import Capabilities as Capabilities
    from penstock_testing.check import Check as Check, CheckFailure as CheckFailure
    from penstock_testing.check_report import Report as Report, Result as Result
    from penstock_testing.event_factories import batch_info as batch_info, receiver_info as receiver_info
    from penstock_testing.event_runs import listener_events as listener_events
    from penstock_testing.fake_listener_context import FakeListenerContext as FakeListenerContext
    from penstock_testing.feeder import DeadLetter as DeadLetter, Feeder as Feeder, Message as Message
    from penstock_testing.file_feeder import FileFeeder as FileFeeder
    from penstock_testing.leaks import LeakMeter as LeakMeter
    from penstock_testing.listener_probe import (
        Backend as Backend,
        ListenerProbe as ListenerProbe,
        MemoryBackend as MemoryBackend,
    )
    from penstock_testing.manual_clock import ManualClock as ManualClock
    from penstock_testing.memory_broker import (
        BrokerSession as BrokerSession,
        Delivery as Delivery,
        MemoryBroker as MemoryBroker,
        MemoryBrokerFeeder as MemoryBrokerFeeder,
    )
    from penstock_testing.memory_source import MemoryFeeder as MemoryFeeder, MemorySource as MemorySource
    from penstock_testing.receiver_harness import ReceiverHarness as ReceiverHarness
    from penstock_testing.simulation.faults import FAULTS as FAULTS, SimulatedFault as SimulatedFault
    from penstock_testing.simulation.simulation import Simulation as Simulation, SimulationOutcome as SimulationOutcome
    from penstock_testing.stream_harness import StreamHarness as StreamHarness
    from penstock_testing.suite_run import run_checks as run_checks, run_suite as run_suite
    from penstock_testing.suites import (
        BlockStoreSuite as BlockStoreSuite,
        ConformanceSuite as ConformanceSuite,
        ListenerSuite as ListenerSuite,
        PluginSuite as PluginSuite,
        RateEstimatorSuite as RateEstimatorSuite,
        ReceiverSuite as ReceiverSuite,
        all_checks as all_checks,
        checks_for as checks_for,
    )
    from penstock_testing.tcp_feeder import TcpFeeder as TcpFeeder
    from penstock_testing.workload import WORKLOADS as WORKLOADS, Workload as Workload
    from penstock_testing.workload_report import (
        WorkloadReport as WorkloadReport,
        processed as processed,
        report as report,
    )
    from penstock_testing.workload_run import (
        MakeEstimator as MakeEstimator,
        SimulatedBatch as SimulatedBatch,
        WorkloadRun as WorkloadRun,
        simulate as simulate,
    )
    from penstock_testing.workload_svg import draw as draw
