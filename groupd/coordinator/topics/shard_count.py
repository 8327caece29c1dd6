"""The numbers of shards are the store's, once and for all: groups, transactional ids and whatever
else has a coordinator are found by them."""

from __future__ import annotations

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import ConfigError, CoordinatorConfig
from groupd.coordinator.runtime.coordinator_types import COORDINATOR_TYPES
from groupd.storage.log import Catalogue, ConfigEntry


async def fix_shard_count(
    store: Catalogue, config: CoordinatorConfig, changes: CatalogueChanges
) -> None:
    """Remember the numbers of shards in a new store. Raises ConfigError if the store was made with
    other numbers, and LogError."""
    wanted = {one.shards_key: one.shards(config) for one in COORDINATOR_TYPES}

    async def change() -> dict[tuple[int, str, str], str]:
        known = {tuple(place): value for *place, value in await store.configs()}
        missing = [place for place in wanted if place not in known]
        if missing:
            await store.put_configs([ConfigEntry(*place, str(wanted[place])) for place in missing])
        return {place: known.get(place, str(wanted[place])) for place in wanted}

    for place, value in (await changes.make(change)).items():
        key, number = place[2], wanted[place]
        if value != str(number):
            raise ConfigError(
                f"{key}={number}: the store was made with {value}; set it to {value}, or choose "
                "another --data-dir"
            )
