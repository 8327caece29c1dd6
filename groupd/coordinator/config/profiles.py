"""Named sets of settings, below those that are given one by one.

`test`: for integration tests. Groups form and move at once, and sessions may be short or long; the
session timeout itself stays Kafka's, so that a slow machine or a breakpoint fences nobody. Records
stay until a topic says otherwise: a test that moves the clock by a week for something else would
lose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "default": MappingProxyType({}),
        "test": MappingProxyType(
            {
                "group.initial.rebalance.delay.ms": "0",
                "group.min.session.timeout.ms": "1",
                "group.consumer.assignment.interval.ms": "0",
                "group.consumer.heartbeat.interval.ms": "50",
                "group.consumer.min.heartbeat.interval.ms": "1",
                "group.consumer.min.session.timeout.ms": "1",
                "group.consumer.max.session.timeout.ms": "1800000",
                "group.consumer.regex.refresh.interval.ms": "10000",
                "groupd.fetch.max.wait.ms": "25",
                "groupd.consumer.target.linger.ms": "0",
                "groupd.consumer.assignor.order": "canonical",
                "log.retention.ms": "-1",
            }
        ),
    }
)
