"""`groupd groups restore`: writes a group's earlier offsets back, through its coordinator.

Nothing bypasses the coordinator: the offsets are sent as an operator's OffsetCommit and
OffsetDelete (no member, generation -1), which the coordinator refuses while the group has members.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from groupd.coordinator.cli.groups.past import fail, note, past_state, run
from groupd.coordinator.cli.groups.place import LogLocation
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.source import cluster_source, open_source
from groupd.coordinator.cli.groups.tables import table
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.calls import OffsetAnswer
from groupd.coordinator.cli.kafka.client_config import client_security
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection
from groupd.coordinator.cli.parse import servers
from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.history.restore import Action, Current, RestoreStep, TopicNow, plan

REQUEST_BYTES = 400_000
"""The size of the offsets in one OffsetCommit, so that their records fit into one batch of the
coordinator."""

_MEMBERLESS = ("Empty", "Dead")


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
    """Restore the group. `stored` None: the history is read from the cluster, too."""
    addresses = servers(bootstrap, "--bootstrap")
    security = client_security(command_config)

    async def work() -> None:
        with KafkaCluster(addresses, security) as cluster:
            then = await _then(cluster, stored, group_id, at)
            coordinator = cluster.coordinator(group_id)
            steps = _plan(cluster, coordinator, group_id, then, delete_new=delete_new)
            _show(group_id, steps, as_json, wide)
            _check_empty(coordinator, group_id)
            if apply:
                _apply(coordinator, group_id, steps)
            elif _writes(steps):
                note(f"a dry run: {_offsets(steps)} would be written; --apply does it")
            if not _writes(steps):
                note("nothing to do")

    run(work())


async def _then(
    cluster: KafkaCluster, stored: LogLocation | None, group_id: str, at: str
) -> list[CommittedOffset]:
    if stored is None:
        state = await past_state(cluster_source(cluster, group_id), group_id, at)
    else:
        async with open_source(stored, group_id) as source:
            state = await past_state(source, group_id, at)
    if not state.offsets:
        note(f"group {group_id} had nothing committed then")
    return state.offsets


def _plan(
    cluster: KafkaCluster,
    coordinator: BlockingConnection,
    group_id: str,
    then: list[CommittedOffset],
    *,
    delete_new: bool,
) -> list[RestoreStep]:
    now = {
        at: Current(found.offset, found.leader_epoch, found.metadata)
        for at, found in calls.fetch_offsets(coordinator, group_id).items()
    }
    topics = {
        name: TopicNow(topic.topic_id, len(topic.partitions))
        for name, topic in cluster.topics(sorted({entry.topic for entry in then})).items()
    }
    places = [(entry.topic, entry.partition) for entry in then]
    return plan(then, now, topics, cluster.bounds(places), delete_new=delete_new)


def _check_empty(coordinator: BlockingConnection, group_id: str) -> None:
    state = calls.group_states(coordinator).get(group_id)
    if state is not None and state not in _MEMBERLESS:
        fail(
            f"group {group_id} is {state}: it has members, which would go on committing. Stop "
            "its consumers, then restore"
        )


def _writes(steps: list[RestoreStep]) -> int:
    return sum(step.action in (Action.COMMIT, Action.DELETE) for step in steps)


def _offsets(steps: list[RestoreStep]) -> str:
    count = _writes(steps)
    return f"{count} offset" + ("" if count == 1 else "s")


def _apply(coordinator: BlockingConnection, group_id: str, steps: list[RestoreStep]) -> None:
    """Write the steps, then ask the coordinator what is committed now: only that counts."""
    failed: dict[calls.Place, int] = {}
    for part in _requests([step for step in steps if step.action is Action.COMMIT]):
        if failed:
            break
        failed.update(_errors(calls.commit_offsets(coordinator, group_id, part)))
    gone = [(step.topic, step.partition) for step in steps if step.action is Action.DELETE]
    if gone and not failed:
        failed.update(_errors(calls.delete_offsets(coordinator, group_id, gone)))
    for (topic, partition), code in sorted(failed.items()):
        note(f"{topic}-{partition} refused: {calls.error_name(code)}")
    if failed:
        fail(f"{len(failed)} of {_offsets(steps)} refused, what follows was not tried")
    found = calls.fetch_offsets(coordinator, group_id)
    wrong = [step for step in steps if not _is_done(step, found.get((step.topic, step.partition)))]
    for step in wrong:
        note(f"{step.topic}-{step.partition} is not at {step.after}")
    if wrong:
        fail("written, but somebody has moved offsets since: see `groupd groups history`")
    if _writes(steps):
        note(f"{_offsets(steps)} written and read back")


def _errors(answer: dict[calls.Place, int]) -> dict[calls.Place, int]:
    return {place: code for place, code in answer.items() if code}


def _is_done(step: RestoreStep, found: OffsetAnswer | None) -> bool:
    if step.action is Action.DELETE:
        return found is None
    if step.action is not Action.COMMIT:
        return True
    return found == OffsetAnswer(step.after or 0, step.leader_epoch, step.metadata)


def _requests(steps: list[RestoreStep]) -> Iterator[dict[calls.Place, OffsetAnswer]]:
    part: dict[calls.Place, OffsetAnswer] = {}
    size = 0
    for step in steps:
        own = 100 + len(step.topic) + 3 * len(step.metadata)
        if part and size + own > REQUEST_BYTES:
            yield part
            part, size = {}, 0
        assert step.after is not None
        wanted = OffsetAnswer(step.after, step.leader_epoch, step.metadata)
        part[step.topic, step.partition] = wanted
        size += own
    if part:
        yield part


def _show(group_id: str, steps: list[RestoreStep], as_json: bool, wide: bool) -> None:
    if as_json:
        for step in steps:
            json_line(
                {
                    "group": group_id,
                    "topic": step.topic,
                    "partition": step.partition,
                    "action": step.action.value,
                    "from": step.before,
                    "to": step.after,
                    "leader_epoch": step.leader_epoch,
                    "metadata": step.metadata,
                    "warning": step.warning,
                }
            )
    elif steps:
        table(
            ("topic", "partition", "from", "to", "action", "warning"),
            [
                (
                    step.topic,
                    step.partition,
                    "-" if step.before is None else step.before,
                    "-" if step.after is None else step.after,
                    step.action.value,
                    step.warning,
                )
                for step in steps
            ],
            wide=wide,
        )
