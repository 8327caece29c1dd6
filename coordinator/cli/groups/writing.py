"""Writes a group's offsets through its coordinator, as an operator does.

Nothing bypasses the coordinator: the offsets are sent as OffsetCommit and OffsetDelete without a
member, generation -1, which the coordinator refuses while the group has members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from groupd.coordinator.cli.groups.past import fail, note
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.calls import OffsetAnswer, Place
from groupd.coordinator.cli.kafka.connection import BlockingConnection
from groupd.coordinator.cli.kafka.group_calls import list_groups

REQUEST_BYTES = 400_000
"""The size of the offsets in one OffsetCommit, so that their records fit into one batch of the
coordinator."""

_MEMBERLESS = ("Empty", "Dead")


def check_empty(coordinator: BlockingConnection, group_id: str, purpose: str) -> None:
    """The command ends with exit code 1 while the group has members."""
    found = list_groups(coordinator).get(group_id)
    if found is not None and found.state not in _MEMBERLESS:
        fail(
            f"group {group_id} is {found.state}: it has members, which would go on committing. "
            f"Stop its consumers, then {purpose}"
        )


def write_offsets(
    coordinator: BlockingConnection,
    group_id: str,
    wanted: Mapping[Place, OffsetAnswer],
    gone: Sequence[Place] = (),
) -> None:
    """Commit `wanted`, delete `gone`, then ask the coordinator what is committed now: only that
    counts. If anything is refused or different, the command ends with exit code 1."""
    count = len(wanted) + len(gone)
    failed: dict[Place, int] = {}
    for part in _requests(wanted):
        if failed:
            break
        failed.update(_errors(calls.commit_offsets(coordinator, group_id, part)))
    if gone and not failed:
        failed.update(_errors(calls.delete_offsets(coordinator, group_id, gone)))
    for (topic, partition), code in sorted(failed.items()):
        note(f"{topic}-{partition} refused: {calls.error_name(code)}")
    if failed:
        fail(f"{len(failed)} of {counted(count)} refused, what follows was not tried")
    found = calls.fetch_offsets(coordinator, group_id)
    wrong = [place for place, offset in wanted.items() if found.get(place) != offset]
    for topic, partition in wrong:
        note(f"{topic}-{partition} is not at {wanted[topic, partition].offset}")
    for topic, partition in gone:
        if (topic, partition) in found:
            wrong.append((topic, partition))
            note(f"{topic}-{partition} still has an offset")
    if wrong:
        fail("written, but somebody has moved offsets since: see `groupd groups history`")
    if count:
        note(f"{counted(count)} written and read back")


def counted(count: int) -> str:
    return f"{count} offset" + ("" if count == 1 else "s")


def _errors(answer: Mapping[Place, int]) -> dict[Place, int]:
    return {place: code for place, code in answer.items() if code}


def _requests(wanted: Mapping[Place, OffsetAnswer]) -> Iterator[dict[Place, OffsetAnswer]]:
    part: dict[Place, OffsetAnswer] = {}
    size = 0
    for place, offset in wanted.items():
        own = 100 + len(place[0]) + 3 * len(offset.metadata)
        if part and size + own > REQUEST_BYTES:
            yield part
            part, size = {}, 0
        part[place] = offset
        size += own
    if part:
        yield part
