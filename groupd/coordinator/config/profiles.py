"""Named configurations, below the settings that are given one by one.

`test`: for integration tests. Groups form and move at once, and sessions may be short or long; the
session timeout itself stays Kafka's, so that a slow machine or a breakpoint fences nobody. Records
stay until a topic says otherwise: a test that moves the clock by a week for something else would
lose them.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.config.coordinator_config import CoordinatorConfig

PROFILES: Mapping[str, CoordinatorConfig] = {
    "default": CoordinatorConfig(),
    "test": CoordinatorConfig(
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1,
        consumer_assignment_interval_ms=0,
        consumer_heartbeat_interval_ms=50,
        consumer_min_heartbeat_interval_ms=1,
        consumer_min_session_timeout_ms=1,
        consumer_max_session_timeout_ms=1_800_000,
        consumer_regex_refresh_interval_ms=10_000,
        consumer_target_linger_ms=0,
        fetch_max_wait_ms=25,
        log_retention_ms=-1,
    ),
}
