"""How shards are made: with the settings, assignors, topics and group configs of now."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState

MakeShard = Callable[[MetadataImage, Mapping[str, Mapping[str, str]]], GroupCoordinatorShard]
"""(topics, dynamic group configs) -> a fresh shard."""


def shard_maker(
    config: CoordinatorConfig,
    assignors: Mapping[str, PartitionAssignor],
    new_id: Callable[[], str],
) -> MakeShard:
    """A function that makes fresh shards. `new_id`: gives the ids of members that bring none."""

    def make(
        image: MetadataImage, overrides: Mapping[str, Mapping[str, str]]
    ) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(
            ShardState(
                config=config,
                new_id=new_id,
                assignors=assignors,
                image=image,
                group_configs={group: dict(values) for group, values in overrides.items()},
            )
        )

    return make
