"""Writes a group's offsets through its coordinator, as an operator does.

Nothing bypasses the coordinator: the offsets are sent as OffsetCommit and OffsetDelete without a
member, generation -1, which the coordinator refuses while the group has members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from groupd.coordinator.cli.groups.past import fail, note
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.cli.kafka.group_calls import list_groups
from groupd.coordinator.history.restore import Current, Place
from groupd.coordinator.moves.parts import (
    counted,
    differing,
    may_be_written,
    members_refusal,
    parts_of,
    refused_text,
)
from groupd.protocol.errors import ErrorCode


def check_empty(coordinator: BlockingConnection, group_id: str) -> None:
    """The command ends with exit code 1 while the group has members."""
    found = list_groups(coordinator).get(group_id)
    refusal = "" if found is None else members_refusal(group_id, found.state)
    if refusal:
        fail(refusal)


def carry_out(
    coordinator: BlockingConnection,
    group_id: str,
    wanted: Mapping[Place, Current | None],
    *,
    apply: bool,
) -> None:
    """With `apply` write the offsets, else say how many would be written. The command ends with
    exit code 1 while the group has members, and as `write_offsets` says."""
    check_empty(coordinator, group_id)
    if apply:
        write_offsets(coordinator, group_id, wanted)
    elif wanted:
        note(f"a dry run: {counted(len(wanted), 'offset')} would be written; --apply does it")
    if not wanted:
        note("nothing to do")


def write_offsets(
    coordinator: BlockingConnection, group_id: str, wanted: Mapping[Place, Current | None]
) -> None:
    """Commit the offsets, delete those that are None, then ask the coordinator what is committed
    now: only that counts. If anything is refused or different, the command ends with exit code
    1."""
    commits = {place: one for place, one in wanted.items() if one is not None}
    deletes = {place: None for place, one in wanted.items() if one is None}
    written = 0
    for commit in parts_of(group_id, commits):
        errors = _tried(commit, partial(calls.commit_offsets, coordinator, group_id, commit))
        written = _checked(errors, written, len(commit), len(wanted))
    for delete in parts_of(group_id, deletes):
        places = list(delete)
        errors = _tried(places, partial(calls.delete_offsets, coordinator, group_id, places))
        written = _checked(errors, written, len(delete), len(wanted))
    wrong = differing(wanted, calls.fetch_offsets(coordinator, group_id))
    for place in wrong:
        offset, name = wanted[place], f"{place[0]}-{place[1]}"
        note(
            f"{name} still has an offset" if offset is None else f"{name} is not at {offset.offset}"
        )
    if wrong:
        fail("written, but somebody has moved offsets since: see `groupd groups history`")
    if wanted:
        note(f"{counted(len(wanted), 'offset')} written and read back")


def _tried(
    part: Collection[Place], ask: Callable[[], Mapping[Place, ErrorCode]]
) -> dict[Place, str]:
    """The errors by partition. `ask` sends the part and returns the codes that come back."""
    try:
        answer = ask()
    except KafkaError as error:
        note(str(error))
        return dict.fromkeys(part, ErrorCode.NETWORK_EXCEPTION.name)
    return {place: code.name for place, code in answer.items() if code}


def _checked(errors: Mapping[Place, str], written: int, tried: int, count: int) -> int:
    """How many partitions have been written after a part of `tried`. If there are errors, the
    command ends with exit code 1."""
    written += tried - len(errors)
    for (topic, partition), error in sorted(errors.items()):
        what = "may have been written" if may_be_written(error) else "refused"
        note(f"{topic}-{partition} {what}: {error}")
    if errors:
        fail(refused_text(errors, written, count))
    return written
