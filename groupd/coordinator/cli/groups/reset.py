"""`groupd groups reset`: moves a group's committed offsets, through its coordinator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.groups.past import asking, fail
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.tables import or_dash, table_of
from groupd.coordinator.cli.groups.writing import carry_out
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.client_config import open_cluster
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.times import FORMS, parse_time
from groupd.coordinator.history.reset_plan import ResetStep, ResetTarget, WantedReset, plan_reset
from groupd.coordinator.history.restore import Current, Place

TO_FORMS = f"earliest, latest, offset:N, shift:+N, shift:-N or a time ({FORMS})"

_NUMBER = re.compile(r"(offset|shift)[ :=]?\s*([+-]?\d{1,19})", re.ASCII)
_TOPIC = re.compile(r"([\w.-]+)(?::(\d{1,9}(?:,\d{1,9})*))?", re.ASCII)
_OFFSET_MAX = 2**63 - 1
_LEAST_TIME_DIGITS = 12
"""A shorter number would be a time before 1974: whoever writes it means an offset."""

Topics = Mapping[str, Sequence[int] | None]
"""Partitions by topic; None = all."""


def parse_to(text: str, now_ms: int) -> WantedReset:
    """What `--to` means. Raises UsageError."""
    if text in (ResetTarget.EARLIEST.value, ResetTarget.LATEST.value):
        return WantedReset(ResetTarget(text))
    number = _NUMBER.fullmatch(text)
    if number is not None:
        wanted = WantedReset(ResetTarget(number[1]), int(number[2]))
        least = 0 if wanted.target is ResetTarget.OFFSET else -_OFFSET_MAX
        if not least <= wanted.amount <= _OFFSET_MAX:
            raise UsageError(f"--to {text}: must be from {least} to {_OFFSET_MAX}")
        return wanted
    if text.isdecimal() and len(text) < _LEAST_TIME_DIGITS:
        raise UsageError(f"--to {text}: for an offset write offset:{text}")
    try:
        return WantedReset(ResetTarget.TIME, parse_time(text, now_ms))
    except UsageError:
        raise UsageError(f"--to {text}: must be {TO_FORMS}") from None


def parse_topics(texts: Sequence[str]) -> Topics:
    """What `--topic` means: {"orders": (0, 1)} for "orders:0,1". Raises UsageError."""
    found: dict[str, Sequence[int] | None] = {}
    for text in texts:
        match = _TOPIC.fullmatch(text)
        if match is None:
            raise UsageError(f"--topic {text}: must be TOPIC, or TOPIC:0,1 for some partitions")
        name, numbers = match[1], match[2]
        known = found.get(name, ())
        if numbers is None or known is None:
            found[name] = None
        else:
            found[name] = (*known, *map(int, numbers.split(",")))
    return found


def reset_group(
    group_id: str,
    wanted: WantedReset,
    topics: Topics,
    bootstrap: str,
    command_config: Path | None,
    *,
    apply: bool,
    as_json: bool,
    wide: bool,
) -> None:
    """Show the plan, and write it with `apply`. Raises UsageError."""
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        coordinator = cluster.coordinator(group_id)
        committed = calls.fetch_offsets(coordinator, group_id)
        places = _places(cluster, topics) if topics else list(committed)
        if not places:
            fail(f"group {group_id} has nothing committed: name topics with --topic")
        steps = _plan(cluster, wanted, places, committed)
        _show(group_id, steps, as_json=as_json, wide=wide)
        new = {one.place: Current(one.after or 0) for one in steps if one.is_write}
        carry_out(coordinator, group_id, new, apply=apply)


def _places(cluster: KafkaCluster, topics: Topics) -> list[Place]:
    found = cluster.topics(sorted(topics))
    missing = sorted(set(topics) - set(found))
    if missing:
        fail(f"no topic {', '.join(missing)}")
    return [
        (name, number)
        for name, numbers in topics.items()
        for number in (
            [at.partition for at in found[name].partitions] if numbers is None else numbers
        )
    ]


def _plan(
    cluster: KafkaCluster,
    wanted: WantedReset,
    places: Sequence[Place],
    committed: Mapping[Place, Current],
) -> list[ResetStep]:
    at_time = cluster.at_time(places, wanted.amount) if wanted.target is ResetTarget.TIME else {}
    before = {place: answer.offset for place, answer in committed.items()}
    return plan_reset(wanted, places, before, cluster.bounds(places), at_time)


def _show(group_id: str, steps: Sequence[ResetStep], *, as_json: bool, wide: bool) -> None:
    if as_json:
        for step in steps:
            json_line({"group": group_id, **step.row()})
    else:
        rows = [{name: or_dash(value) for name, value in step.row().items()} for step in steps]
        table_of(rows, wide=wide)
