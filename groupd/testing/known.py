"""Names that tests give, looked up: what is not there is an error that says what there is."""

from __future__ import annotations

from groupd.coordinator.core.inspection import list_group_summaries
from groupd.coordinator.faults.errors import NotFound
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.suggest import did_you_mean, there_are
from groupd.coordinator.topics.catalogue import Topic
from groupd.testing.engine import Engine


def find_topic(engine: Engine, name: str) -> Topic:
    """Raises NotFound."""
    found = engine.daemon.data_plane.catalogue.topic(name)
    if found is None:
        known = topic_names(engine)
        hint = did_you_mean(name, known)
        raise NotFound(f"no topic {name}{hint}; topics: {there_are(known)}")
    return found


def topic_names(engine: Engine) -> list[str]:
    """Without internal topics."""
    topics = engine.daemon.data_plane.catalogue.topics()
    return [topic.name for topic in topics if not topic.internal]


def group_names(engine: Engine) -> set[str]:
    """Groups that are there: those that live, and those of which only offsets are left."""
    live = {
        str(summary["group_id"])
        for shard in engine.broker.shards
        if shard.state is CoordinatorState.ACTIVE
        for summary in list_group_summaries(shard.shard.state)
    }
    return live | {group for group, _, _ in engine.offsets}


def check_group(engine: Engine, name: str) -> None:
    """Raises NotFound for a group that never was: that had no events, and that no client has
    named."""
    was_there = name in engine.history or name in engine.clients.groups
    if not was_there and name not in group_names(engine):
        raise no_group(engine, name)


def no_group(engine: Engine, name: str) -> NotFound:
    """The error for a group that is not there."""
    return NotFound(
        f"no group {name}{group_meant(engine, name)}; groups: {there_are(group_names(engine))}"
    )


def group_meant(engine: Engine, name: str) -> str:
    """ "; did you mean billing?", or nothing."""
    return did_you_mean(name, group_names(engine) | engine.clients.groups.keys())
