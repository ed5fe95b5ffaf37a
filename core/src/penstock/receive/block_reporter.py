"""``BlockReporter``: has the driver accept blocks, those of all threads that store, in groups.

Owns who reports: while one report is on its way what is stored meanwhile waits, and goes together with the next. A
group stays what it is over all its tries, so that the driver takes all of it or nothing. Runs on whatever thread
stores; the first of a group reports for all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from attrs import define, field

from penstock.blocks.block import StoredBlock
from penstock.errors import StoreError, text_of
from penstock.wire.messages import Reply


@define(eq=False)
class _Group:
    blocks: list[StoredBlock] = field(factory=list)
    reply: Reply | None = None
    error: BaseException | None = None

    @property
    def is_answered(self) -> bool:
        return self.reply is not None or self.error is not None


class BlockReporter:
    """Report blocks, one group at a time.

    Args:
        report: tells the driver of a group and returns its answer.
    """

    def __init__(self, report: Callable[[list[StoredBlock]], Reply]) -> None:
        self._report = report
        self._changed = threading.Condition()
        self._is_reporting = False
        # What waits for the report that is on its way.
        self._next = _Group()

    def report(self, block: StoredBlock) -> Reply:
        """Return the driver's answer to a block.

        Raises:
            StoreError: (or what else reporting raised) there is none.
        """
        with self._changed:
            group = self._next
            group.blocks.append(block)
            self._changed.wait_for(lambda: group.is_answered or not self._is_reporting)
            leads = not group.is_answered
            if leads:
                self._is_reporting, self._next = True, _Group()
        if leads:
            self._report_group(group)
        elif group.error is not None:
            raise StoreError(text_of(group.error)) from group.error
        assert group.reply is not None
        return group.reply

    def _report_group(self, group: _Group) -> None:
        reply: Reply | None = None
        error: BaseException | None = None
        try:
            reply = self._report(group.blocks)
        except BaseException as raised:
            error = raised
            raise
        finally:
            with self._changed:
                group.reply, group.error, self._is_reporting = reply, error, False
                self._changed.notify_all()
