"""`groupd groups reset` and `restore`: move a group's committed offsets through its coordinator
(`groupd.coordinator.moves.mover`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from groupd.coordinator.cli.command_errors import fail, note
from groupd.coordinator.cli.groups.flags import LogLocation
from groupd.coordinator.cli.groups.history_source import (
    cluster_source,
    open_source,
    past_state,
    run,
)
from groupd.coordinator.cli.groups.share import SHARE
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.calls import list_groups
from groupd.coordinator.cli.kafka.cluster import KafkaCluster, open_cluster
from groupd.coordinator.cli.kafka.connection import KafkaError
from groupd.coordinator.cli.parse import FORMS, UsageError, now_ms, parse_time
from groupd.coordinator.cli.tables import json_line, or_dash, table, table_of
from groupd.coordinator.core.slices import Steps, run_through
from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.moves.mover import (
    ELSEWHERE,
    PART_BYTES,
    Errors,
    GroupOffsets,
    MoveFailed,
    PlannedMove,
    counted,
    planned_reset,
    planned_restore,
    write_plan,
)
from groupd.coordinator.moves.plan import (
    Current,
    Ranges,
    ResetTarget,
    TopicNow,
    WantedReset,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicPartition

TO_FORMS = f"earliest, latest, offset:N, shift:+N, shift:-N, group:ID or a time ({FORMS})"

_NUMBER = re.compile(r"(offset|shift)[ :=]?\s*([+-]?\d{1,19})", re.ASCII)
_TOPIC = re.compile(r"([\w.-]+)(?::(\d{1,9}(?:,\d{1,9})*))?", re.ASCII)
_OFFSET_MAX = 2**63 - 1
_LEAST_TIME_DIGITS = 12
"""A shorter number would be a time before 1974, so the user probably means an offset."""

T = TypeVar("T")
Topics = Mapping[str, Sequence[int] | None]
"""Partitions by topic; None = all."""


def parse_to(text: str, now_ms: int) -> WantedReset:
    """Parses `--to`. Raises UsageError."""
    if text in (ResetTarget.EARLIEST.value, ResetTarget.LATEST.value):
        return WantedReset(ResetTarget(text))
    number = _NUMBER.fullmatch(text)
    if number is not None:
        wanted = WantedReset(ResetTarget(number[1]), int(number[2]))
        least = 0 if wanted.target is ResetTarget.OFFSET else -_OFFSET_MAX
        if not least <= wanted.amount <= _OFFSET_MAX:
            raise UsageError(f"--to {text}: must be from {least} to {_OFFSET_MAX}")
        return wanted
    kind, _, group_id = text.partition(":")
    if kind == ResetTarget.GROUP.value and group_id:
        return WantedReset(ResetTarget.GROUP, group_id=group_id)
    if text.isdecimal() and len(text) < _LEAST_TIME_DIGITS:
        raise UsageError(f"--to {text}: for an offset write offset:{text}")
    try:
        return WantedReset(ResetTarget.TIME, parse_time(text, now_ms))
    except UsageError:
        raise UsageError(f"--to {text}: must be {TO_FORMS}") from None


def parse_topics(texts: Sequence[str]) -> Topics:
    """Parses `--topic`: {"orders": (0, 1)} for "orders:0,1". Raises UsageError."""
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


class KafkaGroupOffsets:
    """`mover.GroupOffsets` over a connection. `stored`: the log from which the group's history is
    read; None: the one in the cluster. Raises KafkaError, UsageError, UnreadableLog, LogError."""

    part_bytes = PART_BYTES
    writes_again = False

    def __init__(
        self, cluster: KafkaCluster, group_id: str, stored: LogLocation | None = None
    ) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._coordinator = cluster.coordinator(group_id)
        self._stored = stored

    async def run(self, steps: Steps[T]) -> T:
        return run_through(steps)

    async def state(self) -> str:
        found = list_groups(self._coordinator).get(self.group_id)
        return "" if found is None else found.state

    async def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, Current]:
        return calls.fetch_offsets(self._coordinator, self.group_id)

    async def committed_at(self, at_ms: int) -> list[CommittedOffset]:
        if self._stored is None:
            state = await past_state(
                cluster_source(self._cluster, self.group_id), self.group_id, at_ms
            )
        else:
            async with open_source(self._stored, self.group_id) as source:
                state = await past_state(source, self.group_id, at_ms)
        if not state.offsets:
            note(f"group {self.group_id} had nothing committed then")
        return state.offsets

    async def topics(self, names: Iterable[str]) -> dict[str, TopicNow]:
        found = self._cluster.topics(sorted(names))
        return {name: TopicNow(one.topic_id, len(one.partitions)) for name, one in found.items()}

    async def ranges(self, partitions: Collection[TopicPartition]) -> Ranges:
        return self._cluster.bounds(partitions)

    async def at_time(
        self, partitions: Collection[TopicPartition], at_ms: int
    ) -> dict[TopicPartition, int]:
        return self._cluster.at_time(partitions, at_ms)

    async def commit(self, part: Mapping[TopicPartition, Current]) -> Errors:
        return _tried(part, partial(calls.commit_offsets, self._coordinator, self.group_id, part))

    async def delete(self, part: Mapping[TopicPartition, None]) -> Errors:
        places = list(part)
        return _tried(part, partial(calls.delete_offsets, self._coordinator, self.group_id, places))


class KafkaShareOffsets(KafkaGroupOffsets):
    """The start offsets of a share group. To write one forgets what is finished behind it. Only
    for a reset, which deletes nothing."""

    writes_again = True

    async def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, Current]:
        found = calls.share_offsets(self._coordinator, self.group_id, partitions)
        return {place: Current(one.start_offset) for place, one in found.items()}

    async def commit(self, part: Mapping[TopicPartition, Current]) -> Errors:
        ask = partial(calls.alter_share_offsets, self._coordinator, self.group_id, part)
        return _tried(part, ask)


def _offsets_of(cluster: KafkaCluster, group_id: str, *, share: bool) -> KafkaGroupOffsets:
    """Returns the offsets of a group. `share`: it is, or will be, a share group."""
    known = list_groups(cluster.coordinator(group_id)).get(group_id)
    if known is None:
        is_share = share
    else:
        is_share = known.group_type == SHARE
        if share and not is_share:
            fail(f"group {group_id} is no share group")
    return (KafkaShareOffsets if is_share else KafkaGroupOffsets)(cluster, group_id)


def _tried(
    part: Iterable[TopicPartition], ask: Callable[[], Mapping[TopicPartition, ErrorCode]]
) -> Errors:
    """Returns the errors of a part. `ask` sends it and returns the code of each partition."""
    try:
        answer = ask()
    except KafkaError as error:
        note(str(error))
        return dict.fromkeys(part, ErrorCode.NETWORK_EXCEPTION.name)
    return {place: code.name for place, code in answer.items() if code}


def reset_group(
    group_id: str,
    wanted: WantedReset,
    topics: Topics,
    bootstrap: str,
    command_config: Path | None,
    *,
    share: bool,
    apply: bool,
    as_json: bool,
    wide: bool,
) -> None:
    """Prints the plan. `apply`: also writes it. `share`: a group that does not exist becomes a
    share group. To move to another group without `topics` is for all partitions where that has
    offsets."""

    async def work() -> None:
        with open_cluster(bootstrap, command_config) as cluster:
            group = _offsets_of(cluster, group_id, share=share)
            places = _places(cluster, topics) if topics else None
            others: dict[TopicPartition, int] = {}
            if wanted.target is ResetTarget.GROUP:
                other = await _offsets_of(cluster, wanted.group_id, share=False).committed()
                others = {place: one.offset for place, one in other.items()}
                if not others:
                    fail(f"group {wanted.group_id} has nothing committed")
                places = list(others) if places is None else places
            plan = await planned_reset(group, wanted, places, others)
            if not plan.steps:
                fail(f"group {group_id} has nothing committed: name topics with --topic")
            rows = [
                {**step.row, "records": step.records, "warning": step.warning}
                for step in plan.steps
            ]
            if as_json:
                _print_rows(group_id, rows)
            else:
                dashed = [{name: or_dash(value) for name, value in row.items()} for row in rows]
                table_of(dashed, wide=wide)
            await carry_out(group, plan, apply=apply)

    run(work())


def restore_group(
    group_id: str,
    at: str,
    bootstrap: str,
    command_config: Path | None,
    stored: LogLocation | None,
    *,
    apply: bool,
    delete_new: bool,
    as_json: bool,
    wide: bool,
) -> None:
    """Prints the plan. `apply`: also writes it. `stored` None: the history is read from the
    cluster, too. Raises UsageError."""

    async def work() -> None:
        at_ms = parse_time(at, now_ms())
        with open_cluster(bootstrap, command_config) as cluster:
            if isinstance(_offsets_of(cluster, group_id, share=False), KafkaShareOffsets):
                fail(f"group {group_id} is a share group{ELSEWHERE}")
            group = KafkaGroupOffsets(cluster, group_id, stored)
            plan = await planned_restore(group, at_ms, delete_new=delete_new)
            rows = [
                {
                    **step.row,
                    "leader_epoch": step.leader_epoch,
                    "metadata": step.metadata,
                    "warning": step.warning,
                }
                for step in plan.steps
            ]
            if as_json:
                _print_rows(group_id, rows)
            elif rows:
                columns = ("topic", "partition", "from", "to", "action", "warning")
                cells = [[row[name] for name in columns] for row in rows]
                shown = [["-" if cell is None else cell for cell in some] for some in cells]
                table(columns, shown, wide=wide)
            await carry_out(group, plan, apply=apply)

    run(work())


async def carry_out(group: GroupOffsets, plan: PlannedMove, *, apply: bool) -> None:
    """Writes the plan if `apply`, else prints how many offsets would be written. The command ends
    with exit code 1 if the plan is refused, or if something is not written as planned."""
    if plan.refusal:
        fail(plan.refusal)
    count = sum(step.is_write for step in plan.steps)
    if not count:
        note("nothing to do")
    elif not apply:
        note(f"a dry run: {counted(count, 'offset')} would be written; --apply does it")
    else:
        try:
            await write_plan(group, plan)
        except MoveFailed as error:
            for remark in error.remarks:
                note(remark)
            fail(str(error))
        note(f"{counted(count, 'offset')} written and read back")


def _places(cluster: KafkaCluster, topics: Topics) -> list[TopicPartition]:
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


def _print_rows(group_id: str, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        json_line({"group": group_id, **row})
