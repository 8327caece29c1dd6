"""The number of shards of groups is the store's, once and for all: groups are found by it."""

from __future__ import annotations

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config import ConfigError, CoordinatorConfig
from groupd.coordinator.topics.names import OFFSETS_PARTITIONS
from groupd.storage.log import Catalogue, ConfigEntry


async def fix_shard_count(
    store: Catalogue, config: CoordinatorConfig, changes: CatalogueChanges
) -> None:
    """Remember the number of shards in a new store. Raises ConfigError if the store was made with
    another number, and LogError."""
    wanted = str(config.offsets_topic_num_partitions)

    async def change() -> str:
        for resource, name, key, value in await store.configs():
            if (resource, name, key) == OFFSETS_PARTITIONS:
                return value
        await store.put_configs([ConfigEntry(*OFFSETS_PARTITIONS, wanted)])
        return wanted

    value = await changes.make(change)
    if value != wanted:
        raise ConfigError(
            f"offsets.topic.num.partitions={wanted}: the store was made with {value}; "
            f"set it to {value}, or choose another --data-dir"
        )
