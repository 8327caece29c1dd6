"""The broker of `world`, started."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.host import Host
from groupd.storage.log import StoredTopic
from groupd.storage.memory import MemoryStore
from tests.support.parts import loaded
from tests.support.prompt_clock import PromptClock
from tests.unit.security.world import TOPIC_ID, World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    config = CoordinatorConfig(
        offsets_topic_num_partitions=1,
        auto_create_topics_enable=True,
        consumer_target_linger_ms=0,
    )
    store = MemoryStore()
    await store.start()
    await store.put_topic(StoredTopic(TOPIC_ID, "foo", 1, ()))
    parts = await loaded(config, Host(), PromptClock(), store)
    made = World(parts)
    partition = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": "foo", "partitions": [partition]}]
    commit = {"group_id": "grp", "generation_id_or_member_epoch": -1, "topics": topics}
    await made.ask("OffsetCommit", 8, commit)
    await made.ask("InitProducerId", 4, {"transactional_id": "txn", "transaction_timeout": 1000,
                                         "producer_id": -1, "producer_epoch": -1})  # fmt: skip
    yield made
    await parts.broker.close()
    await parts.data_plane.close()
    await store.close()
