"""Work that a cancellation of its caller does not abort."""

from __future__ import annotations

import asyncio

import pytest

from penstock_http.webhook_receiver import completed


def test_work_is_completed_although_its_caller_is_cancelled() -> None:
    async def cancelled() -> list[str]:
        began, may_end, done = asyncio.Event(), asyncio.Event(), list[str]()

        async def work() -> None:
            began.set()
            await may_end.wait()
            done.append("completed")

        caller = asyncio.create_task(completed(work()))
        await began.wait()
        caller.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        return done

    assert asyncio.run(cancelled()) == ["completed"]
