"""The catalogue: ids, images, deltas, limits, one change at a time."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import COMPACTED_TOPIC, OFFSETS_TOPIC
from groupd.coordinator.runtime.coordinator_types import (
    GROUP_COORDINATOR,
    TRANSACTION_COORDINATOR,
    TRANSACTIONS_TOPIC,
)
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.topic import check_topic_name
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore


def counting_ids():
    numbers = iter(range(1, 1000))
    return lambda: next(numbers).to_bytes(16, "big")


@pytest.fixture
async def catalogue():
    store = MemoryStore()
    await store.start()
    made = TopicCatalogue(store, CoordinatorConfig(), counting_ids(), CatalogueChanges(), 100)
    await made.load()
    return made


async def refused(coroutine):
    with pytest.raises(ApiError) as caught:
        await coroutine
    return caught.value.code


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "é", "a/b", "a\x00"])
def test_illegal_names(name):
    with pytest.raises(ApiError) as caught:
        check_topic_name(name)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "a" * 249, "A.b_c-9", "..."])
def test_legal_names(name):
    check_topic_name(name)


async def test_the_topics_of_the_coordinators_are_always_there(catalogue):
    image = catalogue.image.by_name[OFFSETS_TOPIC]
    assert (image.topic_id, image.partitions, image.internal) == (
        GROUP_COORDINATOR.topic.topic_id,
        50,
        True,
    )
    assert catalogue.image.version == catalogue.image.created_version == 100
    transactions = catalogue.topic(TRANSACTIONS_TOPIC)
    assert (transactions.topic_id, transactions.partitions) == (
        TRANSACTION_COORDINATOR.topic.topic_id,
        50,
    )


async def test_the_compacted_view_is_there_for_who_names_it(catalogue):
    topic = catalogue.topic(COMPACTED_TOPIC)
    assert (topic.topic_id, topic.partitions, topic.internal) == (
        GROUP_COORDINATOR.compacted.topic_id,
        50,
        True,
    )
    assert catalogue.topic_by_id(GROUP_COORDINATOR.compacted.topic_id) is topic
    assert catalogue.image.by_name[COMPACTED_TOPIC].partitions == 50
    assert COMPACTED_TOPIC not in [listed.name for listed in catalogue.topics()]


async def test_clients_can_not_change_internal_topics(catalogue):
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    for name, topic_id in (
        (OFFSETS_TOPIC, GROUP_COORDINATOR.topic.topic_id),
        (TRANSACTIONS_TOPIC, TRANSACTION_COORDINATOR.topic.topic_id),
    ):
        assert await refused(catalogue.create(name, 1, {})) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert await refused(catalogue.delete(topic_id)) == invalid
        assert await refused(catalogue.grow(topic_id, 60)) == invalid


async def test_deltas_say_what_changed(catalogue):
    deltas = []
    catalogue.add_listener(deltas.append)
    first = await catalogue.create("t", 1, {})
    await catalogue.grow(first.topic_id, 3)
    await catalogue.delete(first.topic_id)
    second = await catalogue.create("t", 2, {})
    created, grown, deleted, again = deltas
    assert (created.created, created.changed, created.deleted) == ({"t"}, frozenset(), ())
    assert (grown.created, grown.changed, grown.deleted) == (frozenset(), {"t"}, ())
    assert deleted.deleted == (("t", first.topic_id),)
    assert second.topic_id != first.topic_id
    assert again.image.by_name["t"].topic_id == second.topic_id
    assert [delta.image.version for delta in deltas] == [101, 102, 103, 104]
    assert [delta.image.created_version for delta in deltas] == [101, 101, 101, 104]


async def test_a_config_change_is_no_metadata_change(catalogue):
    topic = await catalogue.create("t", 1, {})
    deltas = []
    catalogue.add_listener(deltas.append)
    changed = await catalogue.change_configs(topic.topic_id, lambda _: {"retention.ms": "1"})
    assert dict(changed.configs) == {"retention.ms": "1"}
    assert deltas == []


async def test_names_that_collide_in_metrics(catalogue):
    await catalogue.create("a.b", 1, {})
    assert await refused(catalogue.create("a_b", 1, {})) == ErrorCode.INVALID_TOPIC_EXCEPTION
    await catalogue.create("a-b", 1, {})
    await catalogue.create("ab", 1, {})


async def test_limits():
    store = MemoryStore()
    await store.start()
    config = CoordinatorConfig(max_topics=2, max_partitions_per_topic=4)
    catalogue = TopicCatalogue(store, config, counting_ids(), CatalogueChanges())
    await catalogue.load()
    assert await refused(catalogue.create("a", 5, {})) == ErrorCode.INVALID_PARTITIONS
    assert await refused(catalogue.create("a", 0, {})) == ErrorCode.INVALID_PARTITIONS
    a = await catalogue.create("a", 4, {})
    assert await refused(catalogue.grow(a.topic_id, 5)) == ErrorCode.INVALID_PARTITIONS
    await catalogue.create("b", 1, {})
    assert await refused(catalogue.create("c", 1, {})) == ErrorCode.POLICY_VIOLATION


async def test_of_concurrent_creations_exactly_one_wins(catalogue):
    results = await asyncio.gather(
        *(catalogue.create("t", 1 + n, {}) for n in range(5)), return_exceptions=True
    )
    won = [result for result in results if not isinstance(result, ApiError)]
    assert len(won) == 1
    codes = {result.code for result in results if isinstance(result, ApiError)}
    assert codes == {ErrorCode.TOPIC_ALREADY_EXISTS}
    assert catalogue.topic("t") == won[0]


class ForgetfulStore(MemoryStore):
    """Applies a put, then loses the connection."""

    broken = False

    async def put_topic(self, topic, made=None):
        stored = await super().put_topic(topic, made)
        if self.broken:
            raise LogUnavailable("gone")
        return stored


async def test_after_an_ambiguous_write_the_store_decides():
    store = ForgetfulStore()
    await store.start()
    catalogue = TopicCatalogue(store, CoordinatorConfig(), counting_ids(), CatalogueChanges())
    await catalogue.load()
    deltas = []
    catalogue.add_listener(deltas.append)
    store.broken = True
    with pytest.raises(LogUnavailable):
        await catalogue.create("t", 1, {})
    assert catalogue.topic("t") is None
    store.broken = False
    assert await refused(catalogue.create("t", 1, {})) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert catalogue.topic("t") is not None
    assert [delta.created for delta in deltas] == [{"t"}]


async def test_ids_that_look_like_options_are_not_used():
    store = MemoryStore()
    await store.start()
    ids = iter([bytes(16), b"\xf8" + bytes(15), b"\x01" * 16])
    catalogue = TopicCatalogue(store, CoordinatorConfig(), lambda: next(ids), CatalogueChanges())
    await catalogue.load()
    assert (await catalogue.create("t", 1, {})).topic_id == b"\x01" * 16
