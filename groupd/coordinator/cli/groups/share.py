"""The records of a share group for people: who holds them, what waits for a lock, what was
delivered again and again, and what was given up (`/groups/{id}/share` of the admin port)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.cli.admin_port import AdminPort, get_pages
from groupd.coordinator.cli.groups.flags import Row
from groupd.coordinator.cli.parse import show_time
from groupd.coordinator.cli.tables import or_dash
from groupd.coordinator.plain_text import span_text

SHARE = "share"
"""The type of share groups."""
GIVEN_UP_SHOWN = 20
"""How many runs of records that were given up are shown: the latest."""


def share_page(admin: AdminPort, path: str, found: Row) -> dict[str, Any]:
    """Returns {"share": all pages} of a share group, and nothing of another group."""
    if found["type"] != SHARE:
        return {}
    whole, *others = get_pages(admin, f"{path}/share")
    for page in others:
        whole["partitions"] += page["partitions"]
    return {"share": whole}


def range_cells(share: Row) -> list[dict[str, object]]:
    """The cells of the records that members hold, by column."""
    return [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "first": one["first_offset"],
            "last": one["last_offset"],
            "delivered": one["delivery_count"],
            "member": one["member_id"],
            "held": span_text(one["held_ms"]),
            "lock": f"{span_text(one['lock_left_ms'])} left",
        }
        for row in share["partitions"]
        for one in row["in_flight"]
        if one["lock_left_ms"] is not None
    ]


def share_cells(row: Row) -> dict[str, object]:
    """The cells of a share-partition, by column; "-" if another node leads it, or nobody."""
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "start": or_dash(row["start_offset"]),
        "next": or_dash(row["next_offset"]),
        "held": or_dash(row["locked"]),
        "to deliver again": or_dash(row["waiting"]),
        "finished": or_dash(row["finished"]),
        "lock timeouts": or_dash(row["lock_timeouts"]),
    }


def share_waits(share: Row) -> Iterator[str]:
    """What each start offset waits for, and until when."""
    for row in share["partitions"]:
        first = row["in_flight"][0] if row["in_flight"] else None
        if first is None or first["first_offset"] != row["start_offset"]:
            continue
        place = f"{row['topic']}-{row['partition']}: the start offset {row['start_offset']} waits"
        if first["lock_left_ms"] is not None:
            yield (
                f"{place} for {first['member_id']}, which has held {_offsets(first)} for "
                f"{span_text(first['held_ms'])} ({span_text(first['lock_left_ms'])} left)"
            )
        elif first["write_pending"]:
            yield f"{place} until the end of {_offsets(first)} is durable"
        elif first["state"] == "archiving":
            yield f"{place} for the copy of {_offsets(first)} to the dead-letter queue"
        else:
            yield f"{place} for the delivery of {_offsets(first)}"


def poison_lines(share: Row) -> list[str]:
    """The records that were delivered more than once and are not finished, the worst first."""
    limit = share["delivery_count_limit"]
    found = [
        (-one["delivery_count"], row["topic"], row["partition"], one["first_offset"], one)
        for row in share["partitions"]
        for one in row["in_flight"]
        if one["delivery_count"] > 1 and one["state"] in ("available", "acquired")
    ]
    return [
        f"{topic}-{number} {_offsets(one)}: delivered {-count} times, at most {limit}"
        + (f"; {one['member_id']} has it now" if one["member_id"] else "")
        for count, topic, number, _, one in sorted(found, key=lambda entry: entry[:4])
    ]


def given_up_lines(share: Row) -> list[str]:
    """The latest records that were given up, with the reason, the newest first. At a gap there is
    no record."""
    found = [
        one
        for one in reversed(share["events"])
        if one["what"] == "archived" and one["why"] != "gap"
    ]
    return [
        f"{show_time(one['timestamp_ms'])} {one['topic']}-{one['partition']} {_offsets(one)}: "
        f"{one['why']}, delivered {one['delivery_count']} times"
        for one in found[:GIVEN_UP_SHOWN]
    ]


def _offsets(one: Row) -> str:
    first, last = one["first_offset"], one["last_offset"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
