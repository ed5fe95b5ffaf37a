"""Logging: levels, throttled events, and no change to the logging of the program around it."""

import json
import logging
import math
import pickle
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from pyspark import cloudpickle
from tests.helpers.odd_names import ODD_NAMES

from penstock.runtime.log import bound_fields, components, configure, get_logger, set_level, throttle
from penstock.runtime.threads import contain_errors
from penstock_testing import ManualClock


@pytest.fixture(autouse=True)
def penstocks_logger() -> Iterator[logging.Logger]:
    """The ``penstock`` logger; restored after the test, as is the root logger's level."""
    logger, root = logging.getLogger("penstock"), logging.getLogger()
    level, handlers, root_level = logger.level, list(logger.handlers), root.level
    yield logger
    configure("WARNING")
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


@pytest.mark.parametrize("given", [True, False], ids=["current", "given"])
def test_traceback_begins_with_the_programs_frame(caplog: pytest.LogCaptureFixture, given: bool) -> None:
    """The outermost frame is Penstock's: ``contain_errors`` calls the function."""
    caught: list[BaseException] = []
    log = get_logger("test_part")

    def fail() -> None:
        raise ValueError("the reason")

    contain_errors(fail, lambda error: log.exception("it failed") if given else caught.append(error))
    if not given:
        log.error("it failed", exc_info=caught[0])
    text = caplog.records[0].getMessage()
    assert "in fail" in text
    assert "contain_errors" not in text


def test_password_of_a_uri_is_hidden(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("test_part").warning("file vanished", path="s3://key:secret@bucket/a", count=2)
    assert "path=s3://key:***@bucket/a" in caplog.records[0].getMessage()


@pytest.mark.parametrize("format", ["console", "json"])
@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_name_gives_a_terminal_nothing_to_obey(caplog: pytest.LogCaptureFixture, format: Any, name: str) -> None:
    configure("WARNING", format)
    try:
        raise ValueError(name)
    except ValueError:
        get_logger("test").exception("failed", location=name)
    line = caplog.records[-1].getMessage()
    line.encode()
    assert not re.search(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]", line)


@pytest.mark.parametrize("format", ["console", "json"])
def test_lone_surrogates_are_written_as_text_that_utf_8_can_encode(
    caplog: pytest.LogCaptureFixture, format: Any
) -> None:
    name = b"caf\xe9".decode(errors="surrogateescape")
    configure("WARNING", format)
    try:
        raise ValueError(name)
    except ValueError:
        get_logger("test").exception(f"{name} failed", location=name)
    line = caplog.records[-1].getMessage()
    line.encode()
    assert "\\udce9" not in line
    assert "caf\ufffd" in (str(json.loads(line)) if format == "json" else line)


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
    assert [record.getMessage().partition("[penstock.mine] ")[2] for record in caplog.records] == [
        "count=1",
        "stream_id=3 count=1",
    ]
    assert pickle.loads(pickle.dumps(throttle)) is throttle


def test_json_format_writes_one_object_a_line(caplog: pytest.LogCaptureFixture) -> None:
    configure("WARNING", "json", app_id="app-1")
    try:
        raise ValueError("first line\nsecond line")
    except ValueError:
        get_logger("test_part").exception("job failed", batch_time=1000, rate=math.inf, item=int, path="a\nb")
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    event = json.loads(record.getMessage())
    assert event.pop("exception").endswith("ValueError: first line\nsecond line")
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "job failed",
        "level": "error",
        "logger": "penstock.test_part",
        "batch_time": "1970-01-01T00:00:01.000Z",
        "rate": "inf",
        "item": "<class 'int'>",
        "path": "a\nb",
        "app_id": "app-1",
    }


def test_format_also_changes_for_loggers_that_were_used_before(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("test_part").bind(stream_id=3)
    log.warning("first")
    configure("WARNING", "json")
    log.warning("second")
    assert [record.getMessage()[:1] for record in caplog.records] == ["2", "{"]


def test_component_has_its_own_level(caplog: pytest.LogCaptureFixture) -> None:
    configure("WARNING", levels={"test_loud": "DEBUG", "test_quiet": "ERROR"})
    for name in ("test_loud", "test_quiet", "test_other"):
        get_logger(name).debug("d")
        get_logger(name).warning("w")
    assert [record.name for record in caplog.records] == ["penstock.test_loud"] * 2 + ["penstock.test_other"]
    caplog.clear()
    configure("WARNING")
    get_logger("test_loud").debug("d")
    get_logger("test_quiet").warning("w")
    assert [record.name for record in caplog.records] == ["penstock.test_quiet"]


def test_component_below_warning_is_printed_without_any_handler(
    monkeypatch: pytest.MonkeyPatch, penstocks_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    penstocks_logger.handlers.clear()
    configure("WARNING", levels={"test_loud": "DEBUG"})
    get_logger("test_loud").debug("heard")
    get_logger("test_other").info("not heard")
    printed = capsys.readouterr().err
    assert "heard" in printed
    assert "not heard" not in printed


def test_fields_of_the_process_are_on_every_thread_below_an_events_own(caplog: pytest.LogCaptureFixture) -> None:
    configure("WARNING", stream_id=1, receiver_id="Lines-1", app_id="app-1")
    thread = threading.Thread(target=lambda: get_logger("test_part").warning("on a thread"))
    thread.start()
    thread.join()
    get_logger("test_part").warning("of another", stream_id=2)
    first, second = (record.getMessage() for record in caplog.records)
    assert "receiver_id=Lines-1" in first
    assert "stream_id=1" in first
    assert "stream_id=2" in second
    # Whoever reads the console knows the application.
    assert "app_id" not in first


def test_bound_fields_are_on_the_events_of_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("test_part")
    with bound_fields(batch_time=1000, output_op_id=2):
        log.warning("inside")
        log.warning("its own", batch_time=2000)
    log.warning("outside")
    inside, own, outside = (record.getMessage() for record in caplog.records)
    assert "batch_time=1970-01-01T00:00:01.000Z output_op_id=2" in inside
    assert "batch_time=1970-01-01T00:00:02.000Z" in own
    assert "batch_time" not in outside


def test_components_are_those_that_have_a_logger() -> None:
    get_logger("test_known")
    assert "test_known" in components()
    configure("WARNING", levels={"test_configured": "INFO"})
    assert "test_configured" not in components()


def test_fields_that_many_events_have_come_first_and_the_others_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    configure("WARNING", receiver_id="Lines-1", stream_id=1)
    with bound_fields(output_op_id=2, batch_time=1000):
        get_logger("test_part").warning("job failed", reason="no", operation="pprint")
    (record,) = caplog.records
    assert record.getMessage().partition("[penstock.test_part] ")[2] == (
        "batch_time=1970-01-01T00:00:01.000Z output_op_id=2 stream_id=1 receiver_id=Lines-1 operation=pprint reason=no"
    )
