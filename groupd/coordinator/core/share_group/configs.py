"""Dynamic settings of share groups (docs/spec/share-group.md#2.6)."""

from __future__ import annotations

import re

from groupd.coordinator.config.values import BOOLEAN, INT, STRING, ValueRule
from groupd.coordinator.core.group_configs import GroupConfig


def _number(key: str, documentation: str, low: int, above: str | None = None) -> GroupConfig:
    """A number whose default is the setting `key` of the broker, as are its bounds."""
    stem = key.removeprefix("group.share.")
    return GroupConfig(
        f"share.{stem}",
        ValueRule(INT, low),
        documentation=documentation,
        broker_key=key,
        low_key=f"group.share.min.{stem}",
        high_key=f"group.share.max.{stem}",
        above=above,
    )


BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?=[+-]?\d)(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?"
    r"(?:(?P<seconds>[+-]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_UNITS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}
_DIGITS_MAX = 15
"""The most digits of a number in a duration: all durations that anybody needs, and no number that
takes long to read."""


def duration_ms(text: str) -> int:
    """The milliseconds of an ISO 8601 duration as Java's Duration reads it (PnDTnHnMn.nS). Raises
    ValueError, also for a negative one."""
    found = _DURATION.fullmatch(text)
    parts = {} if found is None else {name: found[name] for name in _UNITS_MS if found[name]}
    if found is None or not parts or max(map(len, parts.values())) > _DIGITS_MAX:
        raise ValueError(f"{text} is no duration")
    total = sum(int(value) * _UNITS_MS[name] for name, value in parts.items())
    thousandths = int((found["fraction"] or "").ljust(3, "0")[:3])
    total += -thousandths if parts.get("seconds", "").startswith("-") else thousandths
    if found["sign"] == "-":
        total = -total
    if total < 0:
        raise ValueError(f"{text} is negative")
    return total


def _wrong_reset(value: str) -> str | None:
    if value in ("earliest", "latest"):
        return None
    try:
        if value.startswith(BY_DURATION):
            duration_ms(value.removeprefix(BY_DURATION))
            return None
    except ValueError:
        pass
    return (
        f"{value} must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
    )


def _wrong_dead_letter_topic(value: str) -> str | None:
    return "DLQ topic name must not start with '__'" if value.startswith("__") else None


HEARTBEAT_INTERVAL = _number(
    "group.share.heartbeat.interval.ms", "Heartbeat interval that the group's members are told.", 1
)
SESSION_TIMEOUT = _number(
    "group.share.session.timeout.ms",
    "Session timeout of the group's share members.",
    1,
    above=HEARTBEAT_INTERVAL.name,
)
ASSIGNMENT_INTERVAL = _number(
    "group.share.assignment.interval.ms",
    "Least time between two target assignments of the group.",
    0,
)
RECORD_LOCK_DURATION = _number(
    "group.share.record.lock.duration.ms",
    "How long a member may keep a record before others get it.",
    1000,
)
DELIVERY_COUNT_LIMIT = _number(
    "group.share.delivery.count.limit", "How often a record is delivered before it is archived.", 2
)
MAX_RECORD_LOCKS = _number(
    "group.share.partition.max.record.locks", "The most records of a partition in flight.", 100
)
AUTO_OFFSET_RESET = GroupConfig(
    "share.auto.offset.reset",
    ValueRule(STRING),
    default="latest",
    documentation="Where a partition without a start offset starts: earliest, latest, or "
    "by_duration:<PnDTnHnMn.nS> before now.",
    wrong=_wrong_reset,
)
ISOLATION_LEVEL = GroupConfig(
    "share.isolation.level",
    ValueRule(STRING, choices=("read_committed", "read_uncommitted")),
    default="read_uncommitted",
    documentation="Whether the group gets records of transactions that are open or aborted.",
)
RENEW_ACKNOWLEDGE = GroupConfig(
    "share.renew.acknowledge.enable",
    ValueRule(BOOLEAN),
    default="true",
    documentation="Whether members may renew their locks.",
)
DEAD_LETTER_TOPIC = GroupConfig(
    "errors.deadletterqueue.topic.name",
    ValueRule(STRING),
    documentation="Topic for records that were rejected or delivered too often; empty = none.",
    wrong=_wrong_dead_letter_topic,
)
DEAD_LETTER_COPY = GroupConfig(
    "errors.deadletterqueue.copy.record.enable",
    ValueRule(BOOLEAN),
    default="false",
    documentation="Whether that topic gets the record itself, or only headers that tell its place.",
)

CONFIGS = (
    SESSION_TIMEOUT,
    HEARTBEAT_INTERVAL,
    ASSIGNMENT_INTERVAL,
    RECORD_LOCK_DURATION,
    DELIVERY_COUNT_LIMIT,
    MAX_RECORD_LOCKS,
    AUTO_OFFSET_RESET,
    ISOLATION_LEVEL,
    RENEW_ACKNOWLEDGE,
    DEAD_LETTER_TOPIC,
    DEAD_LETTER_COPY,
)
