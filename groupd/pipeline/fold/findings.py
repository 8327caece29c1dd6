"""Findings: what is wrong with a group, how bad it is, and where the evidence is.

Thresholds say when something becomes a finding, and how severe it is: defaults, and a TOML file
that overrides them. An episode is something that happens to a group again and again; it is counted
while it goes on.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields, replace

from groupd.pipeline.errors import PipelineError, length_ms
from groupd.pipeline.fold.entry import FactRow

SEVERITIES = {"info": 1.0, "warning": 3.0, "critical": 10.0}
"""The weights of the severities."""

STORM, FLAPPING = "rebalance-storm", "flapping-member"
STUCK, UNOWNED = "stuck-partition", "unowned-partition"
SKEW, IDLE = "skewed-assignment", "idle-members"
ZOMBIE, EXPIRY = "zombie-commit", "offsets-near-expiry"
CONFLICT, UNFINISHED = "static-conflict", "unfinished-rebalance"
EMPTY_LAG = "empty-group-with-lag"

DEFAULT_SEVERITIES = {
    STORM: "critical",
    FLAPPING: "warning",
    STUCK: "critical",
    UNOWNED: "warning",
    SKEW: "warning",
    IDLE: "info",
    ZOMBIE: "warning",
    EXPIRY: "warning",
    CONFLICT: "critical",
    UNFINISHED: "critical",
    EMPTY_LAG: "warning",
}


class Thresholds(Struct, frozen=True):
    """The keys of the file. They are in tables such as `[storm]` and `[flapping]`:
    `storm_rebalances` is `rebalances` in `[storm]`. A key that ends in `_ms` here is written in the
    file without that ending, as a length of time (`10m`). docs/pipeline-jobs.md says what they
    mean."""

    storm_rebalances: int = 6
    storm_window_ms: int = 600_000
    storm_repeats: int = 3
    flapping_life_ms: int = 30_000
    flapping_count: int = 3
    flapping_window_ms: int = 600_000
    stuck_after_ms: int = 300_000
    stuck_lag: int = 1
    unowned_after_ms: int = 60_000
    skew_ratio: float = 2.0
    skew_difference: int = 2
    zombie_grace_ms: int = 5_000
    zombie_commits: int = 1
    expiry_within_ms: int = 86_400_000
    expiry_retention_ms: int = 604_800_000
    conflict_replacements: int = 3
    conflict_window_ms: int = 600_000
    unfinished_after_ms: int = 300_000
    empty_lag: int = 1
    session_timeout_ms: int = 45_000
    severity: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_SEVERITIES))


def read_thresholds(path: str) -> Thresholds:
    """The defaults overridden by the file, only the defaults if the path is empty. Raises
    PipelineError, one line that names the key."""
    if not path:
        return Thresholds()
    try:
        document = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PipelineError(f"the config {path} cannot be read: {error}") from error
    return _of(path, document)


def _of(path: str, document: Mapping[str, Any]) -> Thresholds:
    known = {one.name: one.default for one in fields(Thresholds) if one.name != "severity"}
    changes: dict[str, Any] = {}
    for table, values in document.items():
        if not isinstance(values, dict):
            raise PipelineError(f"{path}: {table} must be a table, [{table}]")
        for key, value in values.items():
            if table == "severity":
                changes.setdefault(table, dict(DEFAULT_SEVERITIES))[key] = value
                if key not in DEFAULT_SEVERITIES or value not in SEVERITIES:
                    raise PipelineError(
                        f"{path}: severity.{key} = {value!r}: findings are "
                        f"{', '.join(DEFAULT_SEVERITIES)}; severities {', '.join(SEVERITIES)}"
                    )
                continue
            name = f"{table}_{key}".replace("-", "_")
            if f"{name}_ms" in known:
                changes[f"{name}_ms"] = length_ms(value)
            elif name in known and not name.endswith("_ms"):
                changes[name] = _number(path, f"{table}.{key}", value, known[name])
            else:
                raise PipelineError(f"{path}: there is no {key} in [{table}]")
    return replace(Thresholds(), **changes)


def _number(path: str, name: str, value: Any, default: Any) -> Any:
    kinds = (int, float) if isinstance(default, float) else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or value < 0:
        raise PipelineError(f"{path}: {name} = {value!r} must be a number, 0 or more")
    return value


NOWHERE: Mapping[str, Any] = {}

MOST = 5.0
"""A finding this many times beyond its threshold has the greatest weight."""

MANY = 20
"""At most this many names or numbers are given as evidence; `facts.count` has the full number."""


class Occurrences(Struct):
    """When something happened first and last (milliseconds since 1970), and how often."""

    first_ms: int = 0
    last_ms: int = 0
    count: int = 0


def finding(
    thresholds: Thresholds,
    kind: str,
    group_id: str,
    summary: str,
    seen: Occurrences,
    *,
    times: float,
    table: str,
    facts: Mapping[str, Any],
    where: Mapping[str, Any] = NOWHERE,
    topic: str | None = None,
    partition: int | None = None,
    member_id: str | None = None,
) -> FactRow:
    """A row of `findings`. `times`: how many times the value exceeds the threshold. It is limited
    to 1 to `MOST` and multiplies the weight of the severity. `table`, `where`: the table with the
    evidence, and the values that select its rows besides the group."""
    severity = thresholds.severity[kind]
    evidence = {
        "table": table,
        "where": {"group": group_id, **where},
        "since": iso(seen.first_ms),
        "until": iso(seen.last_ms),
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
        "first": seen.first_ms,
        "last": seen.last_ms,
        "count": seen.count,
        "summary": summary,
        "evidence": json.dumps(evidence, sort_keys=True),  # with spaces, for people
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


class Episode(Occurrences):
    """`recent`: the instants of the last occurrences, those within the window. `peak`: the greatest
    number of them within one window. `names`: the first `MANY` names of what it happened to."""

    recent: list[int] = field(default_factory=list)
    peak: int = 0
    names: list[str | int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def note(self, at_ms: int, window_ms: int, name: str | int, kind: str = "") -> None:
        self.recent = [*(one for one in self.recent if one > at_ms - window_ms), at_ms]
        if len(self.recent) == 1:
            self.first_ms, self.count, self.peak = at_ms, 0, 0
            self.names, self.kinds = [], Counter()
        self.last_ms = at_ms
        self.count += 1
        self.peak = max(self.peak, len(self.recent))
        if len(self.names) < MANY:
            self.names.append(name)
        self.kinds[kind] += 1

    def is_over(self, at_ms: int, window_ms: int) -> bool:
        return bool(self.recent) and self.last_ms <= at_ms - window_ms
