"""The listeners of a broker: what they do together."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.kafka_ports import KafkaPorts
from groupd.coordinator.server.metering import UNMETERED
from tests.support.manual_clock import ManualClock
from tests.unit.server.harness import own_resources


class Tls:
    """TLS that looks at its files. The first time it fails, as by a bug of ours."""

    looks = 0

    def look(self) -> None:
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("a bug")


async def test_files_of_certificates_are_looked_at_again_after_a_bug() -> None:
    config, clock, tls = CoordinatorConfig(), ManualClock(), Tls()
    unused: Any = None
    found: Any = {"SSL": tls}
    stats = ConnectionStats()
    ports = KafkaPorts(
        config, clock, unused, stats, own_resources(), unused, unused, unused, UNMETERED, found
    )
    await ports.open(())
    with pytest.raises(RuntimeError):
        clock.advance(config.tls_reload_interval_ms)
    clock.advance(config.tls_reload_interval_ms)
    assert tls.looks == 2
    ports.close_listeners()
    clock.advance(config.tls_reload_interval_ms)
    assert tls.looks == 2
