"""Names of metrics that there are."""

from __future__ import annotations

import re

from tests.support.toolchain import ROOT

OTHERS = {
    # Prometheus' own.
    *("up", "ALERTS"),
    # Of the Prometheus client library.
    *("process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"),
    *("process_open_fds", "process_max_fds"),
}


def documented() -> set[str]:
    """What docs/metrics.md lists."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    return set(re.findall(r"^\| `(\w+)` \| (?:gauge|counter|untyped) \|", page, re.MULTILINE))


def known() -> set[str]:
    return documented() | OTHERS
