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


TYPES: dict[str, str] = dict(
    re.findall(
        r"^\| `(\w+)` \| (gauge|counter|untyped) \|",
        (ROOT / "docs" / "metrics.md").read_text(),
        re.MULTILINE,
    )
)
"""What docs/metrics.md lists: the type by name."""


def known() -> set[str]:
    return TYPES.keys() | OTHERS
