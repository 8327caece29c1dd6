"""`groupd groups offsets`: what a group has committed, now or at an earlier point."""

from __future__ import annotations

from groupd.coordinator.cli.groups.flags import LogLocation
from groupd.coordinator.cli.groups.past import note, past_state, run, time_of
from groupd.coordinator.cli.groups.show import json_line, offset_fields
from groupd.coordinator.cli.groups.source import open_source
from groupd.coordinator.cli.groups.tables import table
from groupd.coordinator.cli.times import show_time
from groupd.coordinator.history.replay import GroupState

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
    """Print the offsets by topic and partition; nothing on stdout when nothing was committed."""
    at_ms = time_of(at)

    async def read() -> tuple[str, GroupState]:
        async with open_source(place, group_id) as source:
            return source.name, await past_state(source, group_id, at_ms, at_log_offset)

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
