"""Logging: levels, throttled events, and no change to the logging of the program around it."""

import logging
import pickle
from collections.abc import Iterator

import pytest
import structlog
from pyspark import cloudpickle

from penstock.runtime.clock import ManualClock
from penstock.runtime.log import get_logger, set_level, throttle


@pytest.fixture(autouse=True)
def penstocks_logger() -> Iterator[logging.Logger]:
    """The ``penstock`` logger; restored after the test, as is the root logger's level."""
    logger, root = logging.getLogger("penstock"), logging.getLogger()
    level, handlers, root_level = logger.level, list(logger.handlers), root.level
    yield logger
    root.setLevel(root_level)
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_record_has_component_name_and_bound_context(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("test_part").bind(stream_id=3).warning("something happened", path="/a")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("penstock.test_part", "WARNING")
    for part in ("something happened", "stream_id=3", "path=/a"):
        assert part in record.getMessage()


@pytest.mark.parametrize(
    ("batch_time", "written"),
    [
        (1_795_343_156_007, "2026-11-22T10:25:56.007Z"),
        (1000, "1970-01-01T00:00:01.000Z"),
        ("of the text", "'of the text'"),
        (None, "None"),
    ],
)
def test_batch_time_is_readable_and_exact_to_the_millisecond(
    caplog: pytest.LogCaptureFixture, batch_time: object, written: str
) -> None:
    get_logger("test_part").warning("job failed", batch_time=batch_time)
    assert f"batch_time={written}" in caplog.text


def test_exception_is_logged_with_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("the reason")
    except ValueError:
        get_logger("test_part").exception("it failed")
    assert "ValueError: the reason" in caplog.text


def test_percent_sign_is_not_a_format(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("test_part").warning("100 %s done", path="%d")
    assert "100 %s done" in caplog.text
    assert "%d" in caplog.text


@pytest.mark.parametrize(("level", "count"), [("DEBUG", 3), ("INFO", 2), ("WARNING", 1), ("ERROR", 0)])
def test_nothing_is_logged_below_the_level(level: str, count: int, caplog: pytest.LogCaptureFixture) -> None:
    set_level(level)
    log = get_logger(f"test_{level}")
    log.debug("d")
    log.info("i")
    log.warning("w")
    assert len(caplog.records) == count


def test_root_logger_is_not_changed(penstocks_logger: logging.Logger) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    for level in ("DEBUG", "INFO", "DEBUG"):
        set_level(level)
    assert (root.level, root.handlers) == before
    # The root logger has pytest's handlers, so none is added.
    assert penstocks_logger.handlers == []


def test_one_handler_is_added_for_lower_levels_when_there_is_none(
    penstocks_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    set_level("WARNING")
    assert penstocks_logger.handlers == []
    for level in ("INFO", "DEBUG", "INFO"):
        set_level(level)
    assert len(penstocks_logger.handlers) == 1


def test_each_line_is_logged_once_when_logging_is_configured_later(
    monkeypatch: pytest.MonkeyPatch, penstocks_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    penstocks_logger.handlers.clear()
    set_level("INFO")
    get_logger("test_part").info("before")
    # As Py4J does on its first error.
    logging.basicConfig(level=logging.INFO)
    get_logger("test_part").info("after")
    printed = capsys.readouterr().err
    assert (printed.count("before"), printed.count("after")) == (1, 1)


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    clock = ManualClock()
    throttle.reset(clock)
    yield clock
    throttle.reset()


def test_throttled_event_is_logged_once_in_its_period(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("test_part")
    for _ in range(3):
        log.warning("receivers paused", host="h1", backlog=clock.now_ms(), throttle_s=60)
        clock.advance(19_000)
    assert len(caplog.records) == 1
    assert "throttle_s" not in caplog.text
    assert "suppressed" not in caplog.text


def test_next_throttled_event_reports_how_many_were_suppressed(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = get_logger("test_part")
    for _ in range(3):
        log.warning("receivers paused", throttle_s=60)
    clock.advance(60_000)
    for _ in range(2):
        log.warning("receivers paused", throttle_s=60)
    first, second = caplog.records
    assert "suppressed" not in first.getMessage()
    assert "suppressed=2" in second.getMessage()
    clock.advance(60_000)
    log.warning("receivers paused", throttle_s=60)
    assert "suppressed=1" in caplog.records[-1].getMessage()


def test_events_are_throttled_apart_by_logger_name_and_identifying_context(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    log, other = get_logger("test_part"), get_logger("test_other")
    for _ in range(2):
        log.warning("receivers paused", throttle_s=60)
        log.warning("receivers resumed", throttle_s=60)
        other.warning("receivers paused", throttle_s=60)
        log.bind(stream_id=1).warning("receivers paused", throttle_s=60)
        log.warning("receivers paused", stream_id=2, throttle_s=60)
    assert len(caplog.records) == 5


def test_event_below_the_level_is_not_counted(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    set_level("WARNING")
    log = get_logger("test_part")
    log.info("receivers paused", throttle_s=60)
    set_level("INFO")
    log.info("receivers paused", throttle_s=60)
    assert len(caplog.records) == 1


def test_event_without_throttle_is_always_logged(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        get_logger("test_part").warning("receivers paused")
    assert len(caplog.records) == 3


def test_throttle_memory_is_bounded(clock: ManualClock) -> None:
    for number in range(5000):
        throttle(None, "warning", {"event": f"event {number}", "throttle_s": 60})
    assert throttle(None, "warning", {"event": "event 0", "throttle_s": 60}) == {"event": "event 0"}
    with pytest.raises(structlog.DropEvent):
        throttle(None, "warning", {"event": "event 4999", "throttle_s": 60})


def test_logger_can_be_sent_to_an_executor(caplog: pytest.LogCaptureFixture) -> None:
    for logger in (get_logger("mine"), get_logger("mine").bind(stream_id=3)):
        copy = pickle.loads(cloudpickle.dumps(logger))
        copy.warning("received", count=1)
    assert caplog.text.count("received [penstock.mine] count=1") == 2
    assert pickle.loads(pickle.dumps(throttle)) is throttle
