"""The number of shards belongs to the data: groups are found by it."""

from __future__ import annotations

from groupd.coordinator.config import ConfigError, CoordinatorConfig
from groupd.coordinator.topics.names import OFFSETS_PARTITIONS
from groupd.storage.log import Catalogue


async def fix_shard_count(store: Catalogue, config: CoordinatorConfig) -> None:
    """Remember it in a new store. Raises ConfigError if the store was made with another one,
    LogError."""
    wanted = str(config.offsets_topic_num_partitions)
    for resource, name, key, value in await store.configs():
        if (resource, name, key) == OFFSETS_PARTITIONS:
            if value != wanted:
                raise ConfigError(
                    f"offsets.topic.num.partitions={wanted}: the store was made with {value}; "
                    f"set it to {value}, or choose another --data-dir"
                )
            return
    resource, name, key = OFFSETS_PARTITIONS
    await store.put_config(resource, name, key, wanted)
