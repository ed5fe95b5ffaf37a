"""The receiver passes the conformance checks."""

from __future__ import annotations

from penstock_redis.conformance import RedisSuite


class TestRedis(RedisSuite):
    pass
