"""Looks up the names that tests give. The error for an unknown name lists the names that exist."""

from __future__ import annotations

from groupd.coordinator.core.inspection import list_group_summaries
from groupd.coordinator.faults.errors import NotFound
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.suggest import did_you_mean, there_are
from groupd.coordinator.topics.topic import Topic
from groupd.testing.engine import Engine


def find_topic(engine: Engine, name: str) -> Topic:
    """The topic of that name. Raises NotFound."""
    found = engine.daemon.data_plane.catalogue.topic(name)
    if found is None:
        known = topic_names(engine)
        hint = did_you_mean(name, known)
        raise NotFound(f"no topic {name}{hint}; topics: {there_are(known)}")
    return found


def topic_names(engine: Engine) -> list[str]:
    """The names of all topics but internal ones."""
    topics = engine.daemon.data_plane.catalogue.topics()
    return [topic.name for topic in topics if not topic.internal]


def group_names(engine: Engine) -> set[str]:
    """The groups that exist: live groups, and groups of which only offsets are left."""
    live = {
        str(summary["group_id"])
        for shard in engine.broker.shards
        if shard.state is CoordinatorState.ACTIVE
        for summary in list_group_summaries(shard.shard.state)
    }
    return live | {group for group, _, _ in engine.offsets}


def check_group(engine: Engine, name: str) -> None:
    """Raises NotFound for a group that never existed: it has no events, and no client has named
    it."""
    was_there = name in engine.history or name in engine.clients.groups
    if not was_there and name not in group_names(engine):
        raise no_group(engine, name)


def no_group(engine: Engine, name: str) -> NotFound:
    """The error for a group that does not exist."""
    return NotFound(
        f"no group {name}{group_meant(engine, name)}; groups: {there_are(group_names(engine))}"
    )


def group_meant(engine: Engine, name: str) -> str:
    """ "; did you mean billing?", or "" if no group has a similar name."""
    return did_you_mean(name, group_names(engine) | engine.clients.groups.keys())
