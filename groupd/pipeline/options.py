"""The options of the data source `groupd`: text in, typed values out. Errors are one line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import DecodeError, Struct
from msgspec.json import decode

from groupd.coordinator.logtools.entries import CHOICES
from groupd.pipeline.decode import CORRUPT_BATCH
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.logs import OFFSETS, SOURCE_LOGS, SourceLog
from groupd.pipeline.row_filter import RowFilter
from groupd.pipeline.store import store_url

ROWS_PER_PARTITION = 250_000
"""How many offsets one task reads: some seconds of work."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_KNOWN = frozenset(
    {
        "store",
        "segments",
        "log",
        "columns",
        "group",
        "groups",
        "types",
        "from",
        "until",
        "rowsperpartition",
        "maxrowsperbatch",
        "failondataloss",
        "startingoffsets",
        "path",
    }
)


class SourceOptions(Struct, frozen=True):
    """The parsed options. Either `store` (a URL) or `segments` (a directory) is given. `topic`: the
    log that is read. `starting`: `earliest`, `latest`, or offsets by log partition."""

    store: str | None
    segments: str | None
    columns: tuple[str, ...]
    wanted: RowFilter
    topic: str = OFFSETS.log.topic
    rows_per_partition: int = ROWS_PER_PARTITION
    max_rows_per_batch: int | None = None
    fail_on_data_loss: bool = True
    starting: str | dict[int, int] = "earliest"

    @property
    def source_log(self) -> SourceLog:
        return SOURCE_LOGS[self.topic]


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """The options as typed values. Raises PipelineError."""
    given = {name.lower(): value for name, value in options.items()}
    for name in sorted(set(given) - _KNOWN):
        raise PipelineError(f"the source groupd has no option {name}: {', '.join(sorted(_KNOWN))}")
    store, segments = given.get("store", given.get("path")), given.get("segments")
    if (store is None) == (segments is None):
        raise PipelineError("the source groupd needs one of the options store and segments")
    topic = given.get("log", OFFSETS.log.topic)
    if topic not in SOURCE_LOGS:
        raise PipelineError(f"there is no log {topic}: there are {', '.join(SOURCE_LOGS)}")
    limit = given.get("maxrowsperbatch")
    return SourceOptions(
        None if store is None else store_url(store),
        None if segments is None else str(Path(segments).absolute()),
        _columns(given.get("columns"), SOURCE_LOGS[topic].columns),
        _wanted(given),
        topic,
        _positive("rowsPerPartition", given.get("rowsperpartition", str(ROWS_PER_PARTITION))),
        None if limit is None else _positive("maxRowsPerBatch", limit),
        _switch("failOnDataLoss", given.get("failondataloss", "true")),
        _starting(given.get("startingoffsets", "earliest")),
    )


def _columns(text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return known
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in known:
            raise PipelineError(f"there is no column {name}: there are {', '.join(known)}")
    return names or known


def _wanted(given: Mapping[str, str]) -> RowFilter:
    groups: set[str] = set()
    if "group" in given:
        groups.add(given["group"])
    if "groups" in given:
        try:
            groups |= decode(given["groups"], type=set[str])
        except DecodeError:
            raise PipelineError(
                'the option groups is a list in JSON, like ["billing", "shipping"]'
            ) from None
    types = {part.strip() for part in given.get("types", "").split(",") if part.strip()}
    for name in sorted(types - {*CHOICES, CORRUPT_BATCH}):
        raise PipelineError(f"there is no record type {name}: there are {', '.join(CHOICES)}")
    return RowFilter(
        groups=frozenset(groups) if groups else None,
        types=frozenset(types) if types else None,
        from_us=None if "from" not in given else parse_time(given["from"]),
        until_us=None if "until" not in given else parse_time(given["until"]),
        rest=bool(groups) or "from" in given or "until" in given,
    )


def _positive(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise PipelineError(f"the option {name} must be a whole number, at least 1, not {text}")
    return number


def _switch(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PipelineError(f"the option {name} is true or false, not {text}")
    return text.lower() == "true"


def _starting(text: str) -> str | dict[int, int]:
    if text in ("earliest", "latest"):
        return text
    try:
        return decode(text, type=dict[int, int])
    except DecodeError:
        raise PipelineError(
            'the option startingOffsets is earliest, latest or JSON like {"0": 12, "1": 0}'
        ) from None


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970; a time without a zone is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def parse_time(text: str) -> int:
    """Microseconds since 1970 of ISO 8601 text (UTC unless it has a zone) or of milliseconds.
    Raises PipelineError."""
    try:
        return int(text) * 1000
    except ValueError:
        pass
    try:
        return micros_of(datetime.fromisoformat(text))
    except ValueError:
        raise PipelineError(
            f"{text} is not a time: use ISO 8601 like 2026-05-01T12:00:00Z, or milliseconds"
        ) from None
