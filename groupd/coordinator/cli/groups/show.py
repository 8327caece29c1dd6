"""Shows groups, offsets and changes: as JSON lines for programs, as text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from groupd.coordinator.cli.times import show_time
from groupd.coordinator.history.changes import (
    Author,
    Change,
    CommittedOffset,
    LoggedGroupEvent,
    OffsetChange,
    who_moved,
)


def json_line(fields: Mapping[str, Any]) -> None:
    print(json.dumps(fields, separators=(",", ":"), ensure_ascii=False), flush=False)


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
    """One line: the time, the place, what changed, who changed it, and the offset in the log."""
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
