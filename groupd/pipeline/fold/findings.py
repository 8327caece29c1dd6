"""Findings: what is wrong with a group, how bad it is, and where the evidence is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from groupd.pipeline.fold.facts import Row
from groupd.pipeline.fold.thresholds import SEVERITIES, Thresholds

MOST = 5.0
"""A finding this many times beyond its threshold has the greatest weight."""

MANY = 20
"""At most this many names or numbers are given as evidence; `facts.count` has the full number."""


def finding(
    thresholds: Thresholds,
    kind: str,
    group_id: str,
    summary: str,
    *,
    times: float,
    first_ms: int,
    last_ms: int,
    count: int,
    table: str,
    where: Mapping[str, Any],
    facts: Mapping[str, Any],
    topic: str | None = None,
    partition: int | None = None,
    member_id: str | None = None,
) -> Row:
    """A row of `findings`. `times`: how many times the value exceeds the threshold. It is limited
    to 1 to `MOST` and multiplies the weight of the severity."""
    severity = thresholds.severity[kind]
    evidence = {
        "table": table,
        "where": {"group": group_id, **where},
        "since": iso(first_ms),
        "until": iso(last_ms),
        "facts": facts,
    }
    return {
        "group": group_id,
        "finding": kind,
        "severity": severity,
        "score": round(SEVERITIES[severity] * min(max(times, 1.0), MOST), 2),
        "topic": topic,
        "partition": partition,
        "member_id": member_id,
        "first": first_ms,
        "last": last_ms,
        "count": count,
        "summary": summary,
        "evidence": json.dumps(evidence, sort_keys=True),
    }


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def times(value: float, threshold: float) -> float:
    """How many times the value exceeds the threshold."""
    return value / threshold if threshold else float(value)


def duration(ms: float) -> str:
    """A length of time for people: 850 ms, 12 s, 5 min, 3.2 h, 2.0 d."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.1f} d"
