"""What is acknowledged is there after a restart, on a real disk."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.runtime.coordinator_types import SHARE_TOPIC, TRANSACTIONS_TOPIC
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import MetadataRequest
from groupd.protocol.messages.topics import CreatePartitionsRequest, DeleteTopicsRequest, GrownTopic
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.storage.open import create_store


@pytest.fixture
async def cluster(make_cluster, tmp_path):
    made = await make_cluster(create_store(None, tmp_path)).start()
    yield made
    await made.stop()


async def restart(cluster, tmp_path):
    """A new store object over the same file, as a new process has."""
    await cluster.stop()
    cluster.store = create_store(None, tmp_path)
    cluster.clock.advance(1000)
    await cluster.start()


async def test_everything_survives(cluster, tmp_path):
    kept = await cluster.create("kept", 2, retention_ms="77")
    await cluster.create("gone")
    await cluster.ask(DeleteTopicsRequest((("gone", bytes(16)),)))
    await cluster.ask(CreatePartitionsRequest((GrownTopic("kept", 3),)))
    for n in range(3):
        payload = cluster.batch(b"%d" % n, producer=5, epoch=1, sequence=n)
        assert (await cluster.produce("kept", payload, 2)).base_offset == n
    before = await cluster.ask(MetadataRequest(None))
    version = cluster.plane.catalogue.image.version

    await restart(cluster, tmp_path)

    after = await cluster.ask(MetadataRequest(None))
    assert after == before
    assert [info.name for info in after.topics] == [
        OFFSETS_TOPIC,
        SHARE_TOPIC,
        TRANSACTIONS_TOPIC,
        "kept",
    ]
    assert cluster.plane.catalogue.image.version > version
    topic = cluster.plane.catalogue.topic("kept")
    assert (topic.topic_id, topic.partitions, dict(topic.configs)) == (
        kept,
        3,
        {"retention.ms": "77"},
    )
    fetched = await cluster.fetch("kept", 1, 2)
    records = [r for b in iter_batches(bytes(fetched.records)) for r in iter_records(b)]
    assert [(r.offset, r.value) for r in records] == [(1, b"1"), (2, b"2")]
    again = cluster.batch(b"2", producer=5, epoch=1, sequence=2)
    assert (await cluster.produce("kept", again, 2)).base_offset == 2
    stale = cluster.batch(b"3", producer=5, epoch=0, sequence=3)
    assert (await cluster.produce("kept", stale, 2)).error == ErrorCode.INVALID_PRODUCER_EPOCH
    after_gap = cluster.batch(b"4", producer=5, epoch=1, sequence=4)
    assert (await cluster.produce("kept", after_gap, 2)).error == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    follows = cluster.batch(b"3", producer=5, epoch=1, sequence=3)
    assert (await cluster.produce("kept", follows, 2)).base_offset == 3
