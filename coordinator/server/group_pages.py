"""Pages about one group: its lag over the last hour, its rebalances, the settings in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupd.coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config_values import SOURCE_GROUP
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_configs import GROUP_CONFIGS, describe
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.history.rebalances import rebalance_steps
from groupd.coordinator.lag.ends import TopicPartition
from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.rows import seconds
from groupd.coordinator.lag.trend import MINUTE_MS, MINUTES
from groupd.coordinator.lag.watch import GroupLag, LagWatch, PartitionLag
from groupd.coordinator.plain_text import span_text

PARTITIONS_SHOWN = 50
"""Partitions of a group whose last hour is shown: those with the most lag now."""


def lag_steps(watch: LagWatch, asked: Group) -> Steps[dict[str, Any]]:
    """The state of a group, and what the last round says of it: `round` (its number), `lag`,
    `lag_seconds`, `judgement` and `reason`, and `history`: the lag of each minute of the last hour,
    in all and of the partitions that were behind in it. A group that has committed nothing has None
    and no history."""
    group_id, now = asked.group_id, watch.now()
    group = watch.groups.get(group_id)
    shown: dict[str, Any] = {
        "group_id": group_id,
        "state": asked.state_name(),
        "round": watch.rounds,
        "now_ms": now.wall_ms,
    }
    if group is None:
        known = dict.fromkeys(("lag", "lag_seconds", "judgement", "reason", "history"))
        return {**shown, **known}
    history = yield from _history(watch, group_id, group)
    return {
        **shown,
        "lag": group.totals.lag,
        "lag_seconds": seconds(group.totals.age_ms),
        "judgement": group.totals.judgement.value,
        "reason": reason(group, now.monotonic_ms),
        "history": history,
    }


def _history(watch: LagWatch, group_id: str, group: GroupLag) -> Steps[dict[str, Any]]:
    """The hour up to the last round. Later there may be a minute in which nobody has looked yet."""
    behind: list[tuple[int, TopicPartition]] = []
    for some in chunks(group.partitions()):
        behind += [(-one.lag, place) for place, one in some if (group_id, place) in watch.trends]
        yield
    until = watch.round_at
    now_ms, shown = until.monotonic_ms, []
    for _, (topic, number) in sorted(behind)[:PARTITIONS_SHOWN]:
        trend = watch.trends.get((group_id, (topic, number)))
        if trend is not None:  # else a round has found meanwhile that there is no lag any more
            shown.append({"topic": topic, "partition": number, "lag": trend.minutes(now_ms)})
    last_ms = until.wall_ms - now_ms % MINUTE_MS
    return {
        "times_ms": [last_ms - at * MINUTE_MS for at in reversed(range(MINUTES))],
        "total": group.trend.minutes(now_ms),
        "partitions": shown,
        "left_out": max(0, len(behind) - PARTITIONS_SHOWN),
    }


def reason(group: GroupLag, now_ms: int) -> str:
    """Why a group is judged as it is, in a sentence about its worst partition. `now_ms`: the
    monotonic time of its watch."""
    totals = group.totals
    if totals.judgement is Judgement.OK or totals.worst is None:
        return "no records wait" if not totals.lag else f"{_records(totals.lag)}, and it keeps up"
    topic, number = totals.worst
    worst = group.partition(topic, number)
    why = "" if worst is None else _why(worst, now_ms)
    others = "1 more partition is" if totals.others == 1 else f"{totals.others} more partitions are"
    more = f" ({others} {totals.judgement.value})" * (totals.others > 0)
    return f"{topic}-{number}: {why}{more}"


def _why(one: PartitionLag, now_ms: int) -> str:
    waits = _records(one.lag)
    match one.judgement:
        case Judgement.REWOUND:
            ago = span_text(max(0, now_ms - one.rewound_ms))
            return f"its committed offset went back {ago} ago, and is {one.offset} now"
        case Judgement.STOPPED:
            silent = span_text(one.silent_ms(now_ms))
            return f"nothing was committed for {silent}, although {waits}"
        case Judgement.STALLED:
            stands = span_text(max(0, now_ms - one.moved_ms))
            return f"offset {one.offset} was committed again and again for {stands}; {waits}"
        case _:
            return f"it commits, but the lag does not become less; {waits}"


def _records(count: int) -> str:
    return "1 record waits" if count == 1 else f"{count} records wait"


def rebalance_rows(
    group: Group, events: Sequence[Mapping[str, Any]]
) -> Steps[list[dict[str, Any]]]:
    """The rebalances that a group's timeline tells of, newest first
    (`groupd.coordinator.history.rebalances`)."""
    identify = type_of(group).identify
    told = {event["member_id"] for event in events} & group.members.keys()
    clients = {member_id: identify(group, member_id).client_id for member_id in sorted(told)}
    return (yield from rebalance_steps(events, state=group.state_name(), clients=clients))


def config_rows(
    config: CoordinatorConfig, overrides: Mapping[str, str] | None
) -> list[dict[str, str | None]]:
    """The settings that are in force for a group: `name`, `value`, and `source`: group (its own),
    broker (set by a flag, a file or a client), or default."""
    rows = []
    for one in describe(config, overrides):
        field = FIELDS_BY_KEY[GROUP_CONFIGS.keys[one.name].broker_key or ""]
        of_broker = "default" if getattr(config, field.name) == field.default else "broker"
        source = "group" if one.source == SOURCE_GROUP else of_broker
        rows.append({"name": one.name, "value": one.value, "source": source})
    return rows
