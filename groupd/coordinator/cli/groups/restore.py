"""`groupd groups restore`: writes a group's earlier offsets back, through its coordinator."""

from __future__ import annotations

from pathlib import Path

from groupd.coordinator.cli.groups.past import note, past_state, run
from groupd.coordinator.cli.groups.place import LogLocation
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.source import cluster_source, open_source
from groupd.coordinator.cli.groups.tables import table
from groupd.coordinator.cli.groups.writing import carry_out
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.client_config import open_cluster
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection
from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.history.restore import RestoreStep, TopicNow, plan, writes


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

    async def work() -> None:
        with open_cluster(bootstrap, command_config) as cluster:
            then = await _then(cluster, stored, group_id, at)
            coordinator = cluster.coordinator(group_id)
            steps = _plan(cluster, coordinator, group_id, then, delete_new=delete_new)
            _show(group_id, steps, as_json, wide)
            wanted = {step.place: step.wanted for step in writes(steps)}
            carry_out(coordinator, group_id, wanted, apply=apply)

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
    now = calls.fetch_offsets(coordinator, group_id)
    topics = {
        name: TopicNow(topic.topic_id, len(topic.partitions))
        for name, topic in cluster.topics(sorted({entry.topic for entry in then})).items()
    }
    places = [entry.place for entry in then]
    return plan(then, now, topics, cluster.bounds(places), delete_new=delete_new)


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
