"""When something becomes a finding, and how severe it is: defaults, and a TOML file that overrides
them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields, replace

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.settings import length

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

_MS = timedelta(milliseconds=1)


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
                changes[f"{name}_ms"] = length(value) // _MS
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
