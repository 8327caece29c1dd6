"""`groupd groups offsets` and `groupd groups history`: the offsets that a group has committed, now
or earlier, and who moved them, when, and from where to where."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.cli.command_errors import note
from groupd.coordinator.cli.groups.flags import LogLocation
from groupd.coordinator.cli.groups.history_source import (
    extent_at,
    open_source,
    past_state,
    run,
    share_changes,
    time_of,
)
from groupd.coordinator.cli.groups.share import SHARE
from groupd.coordinator.cli.parse import UsageError, show_time
from groupd.coordinator.cli.tables import json_line, table
from groupd.coordinator.history.changes import (
    Author,
    Change,
    ChangeKind,
    CommittedOffset,
    LoggedGroupEvent,
    OffsetChange,
    who_moved,
)
from groupd.coordinator.history.replay import GroupLog, GroupState, changes, state_at

COLUMNS = ("topic", "partition", "offset", "leader epoch", "metadata", "committed", "log offset")


def show_offsets(
    place: LogLocation,
    group_id: str,
    at: str | None,
    at_log_offset: int | None,
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Prints the offsets by topic and partition; nothing on stdout if no offset was committed."""
    at_ms = time_of(at)

    async def read() -> tuple[str, GroupState]:
        async with open_source(place, group_id) as source:
            state = await past_state(source, group_id, at_ms, at_log_offset)
        if state.group_type == SHARE:
            if at_log_offset is not None:
                raise UsageError("a share group has a log for each partition: name a time, --at")
            state = replace(state, offsets=await _starts(place, group_id, at_ms))
        return source.name, state

    log, state = run(read())
    if not state.offsets:
        note(f"group {group_id} has nothing committed there ({log} up to {state.as_of_offset})")
    elif as_json:
        for offset in state.offsets:
            json_line(offset_fields(group_id, offset))
    else:
        table(
            COLUMNS,
            [
                (
                    offset.topic,
                    offset.partition,
                    offset.offset,
                    offset.leader_epoch,
                    offset.metadata or "-",
                    show_time(offset.commit_time_ms),
                    offset.log_offset,
                )
                for offset in state.offsets
            ],
            wide=wide,
        )


class HistoryFilter(Struct, frozen=True):
    """Selects the changes that are shown. The log is only read up to `until_ms`."""

    topic: str | None
    partition: int | None
    since_ms: int | None
    until_ms: int | None
    events: bool
    every: bool

    @classmethod
    def parse(
        cls,
        topic: str | None,
        partition: int | None,
        since: str | None,
        until: str | None,
        *,
        events: bool,
        every: bool,
    ) -> HistoryFilter:
        """Makes the filter from flags. Raises UsageError."""
        if partition is not None and topic is None:
            raise UsageError("--partition needs --topic")
        return cls(topic, partition, time_of(since), time_of(until), events, every)

    def has(self, change: Change) -> bool:
        if self.since_ms is not None and change.time_ms < self.since_ms:
            return False
        if isinstance(change, LoggedGroupEvent):
            return self.events
        if change.kind is ChangeKind.SAME and not self.every:
            return False
        if self.partition not in (None, change.partition):
            return False
        return self.topic in (None, change.topic)


def show_history(
    place: LogLocation, group_id: str, wanted: HistoryFilter, retention_ms: int, *, as_json: bool
) -> None:
    """Prints a line for each change as soon as it is read, because a history may be long."""

    async def read() -> int:
        async with open_source(place, group_id) as source:
            return await _show(place, source, group_id, wanted, retention_ms, as_json)

    if not run(read()):
        note(f"no change of group {group_id} there")


async def _starts(place: LogLocation, group_id: str, at_ms: int | None) -> list[CommittedOffset]:
    """The start offsets of a share group at a time, by topic and partition."""
    found: dict[tuple[str, int], CommittedOffset | None] = {}
    async for change in share_changes(place, group_id, at_ms):
        found[change.topic, change.partition] = change.after
    return [one for _, one in sorted(found.items()) if one is not None]


async def _show(
    place: LogLocation,
    source: GroupLog,
    group_id: str,
    wanted: HistoryFilter,
    retention_ms: int,
    as_json: bool,
) -> int:
    extent = await extent_at(source, group_id, wanted.until_ms)
    earliest_ms = extent.earliest_ms
    if earliest_ms is not None and (wanted.since_ms is None or wanted.since_ms < earliest_ms):
        note(f"up to {show_time(earliest_ms)} the log is compacted: told from there on")
    count, commits = 0, False
    async for change in changes(source.batches(), group_id, extent, retention_ms=retention_ms):
        commits = commits or isinstance(change, OffsetChange)
        count += _print(group_id, change, wanted, as_json)
    if commits:
        return count
    state = await state_at(source.batches(), group_id, extent.cut_offset)
    if state.group_type == SHARE:
        async for moved in share_changes(place, group_id, wanted.until_ms):
            count += _print(group_id, moved, wanted, as_json)
    return count


def _print(group_id: str, change: Change, wanted: HistoryFilter, as_json: bool) -> bool:
    """Prints a change if it is wanted; returns whether it is."""
    if not wanted.has(change):
        return False
    if as_json:
        json_line(change_fields(group_id, change))
    else:
        print(change_line(change))
    return True


def offset_fields(group_id: str, offset: CommittedOffset) -> dict[str, Any]:
    return {
        "group": group_id,
        "topic": offset.topic,
        "partition": offset.partition,
        **_point(offset),
    }


def _point(offset: CommittedOffset) -> dict[str, Any]:
    return {
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commit_time_ms": offset.commit_time_ms,
        "log_offset": offset.log_offset,
        "topic_id": str(UUID(bytes=offset.topic_id)),
    }


def change_fields(group_id: str, change: Change) -> dict[str, Any]:
    common = {
        "kind": change.kind.value,
        "time_ms": change.time_ms,
        "time": show_time(change.time_ms),
        "log_offset": change.log_offset,
        "group": group_id,
    }
    if isinstance(change, LoggedGroupEvent):
        event = {"member_id": change.member_id, "epoch": change.epoch}
        return {"type": "event", **common, **event, "details": dict(change.details)}
    return {
        "type": "offset",
        **common,
        "topic": change.topic,
        "partition": change.partition,
        "from": None if change.before is None else _point(change.before),
        "to": None if change.after is None else _point(change.after),
        "by": _author_fields(change.author),
        "cause": change.cause,
    }


def _author_fields(author: Author) -> dict[str, Any]:
    return {
        "actor": author.actor.value,
        "member_id": author.member_id,
        "instance_id": author.instance_id,
        "client_id": author.client_id,
        "client_host": author.client_host,
        "epoch": author.epoch,
        "producer_id": author.producer_id,
        "producer_epoch": author.producer_epoch,
    }


def change_line(change: Change) -> str:
    """Describes a change in one line: the time, the offset in the log, the partition or the event,
    the change, and who made it."""
    where = f"@{change.log_offset}"
    if isinstance(change, LoggedGroupEvent):
        facts = [change.member_id] if change.member_id else []
        facts += [f"epoch={change.epoch}"] if change.epoch >= 0 else []
        facts += [f"{key}={value}" for key, value in change.details.items()]
        words = " ".join([f"* {change.kind.value}", *facts])
        return f"{show_time(change.time_ms)}  {where:>8}  {words}"
    place = f"{change.topic}-{change.partition}"
    line = f"{show_time(change.time_ms)}  {where:>8}  {place}  {change.kind.value:<8} "
    return f"{line}{_step(change)}  by {who_moved(change)}"


def _step(change: OffsetChange) -> str:
    before, after = change.before, change.after
    step = f"{'none' if before is None else before.offset} -> "
    step += "none" if after is None else str(after.offset)
    if before is not None and after is not None and before.offset != after.offset:
        step += f" ({after.offset - before.offset:+d})"
    return step
