"""`groupd log consume`: a copy of a running cluster's offsets log, as segment files.

Batches are copied byte by byte as Fetch serves them, markers and aborted transactions included, up
to the end that each partition has when its turn comes.
"""

from __future__ import annotations

import json
from pathlib import Path

from coordinator.logtools.errors import LogToolError
from coordinator.logtools.kafka_client import Broker, Cluster
from coordinator.logtools.record_json import id_text
from coordinator.logtools.segments import OFFSETS_TOPIC, SegmentWriter
from coordinator.logtools.topic_ids import TOPICS_FILE
from protocol.messages import NO_TOPIC_ID
from protocol.records.batch import CorruptBatch, check, parse_header

EARLIEST, LATEST = -2, -1


async def consume_log(host: str, port: int, target: Path) -> tuple[int, int, int]:
    """(partitions, batches, records) that were copied. Raises LogToolError."""
    first = Broker(host, port)
    await first.open()
    try:
        cluster = await first.cluster()
    finally:
        await first.close()
    offsets = cluster.topics.get(OFFSETS_TOPIC)
    if offsets is None or not offsets.leaders:
        raise LogToolError(f"{host}:{port}: the cluster has no {OFFSETS_TOPIC} (yet)")
    target.mkdir(parents=True, exist_ok=True)
    brokers: dict[int, Broker] = {}
    batches = records = 0
    try:
        for partition, leader in sorted(offsets.leaders.items()):
            if leader not in brokers:
                if leader not in cluster.brokers:
                    raise LogToolError(f"{OFFSETS_TOPIC}-{partition} has no leader")
                brokers[leader] = Broker(*cluster.brokers[leader])
                await brokers[leader].open()
            copied = await _copy(brokers[leader], partition, target)
            batches, records = batches + copied[0], records + copied[1]
    finally:
        for broker in brokers.values():
            await broker.close()
    _write_topics(cluster, target)
    return len(offsets.leaders), batches, records


async def _copy(broker: Broker, partition: int, target: Path) -> tuple[int, int]:
    offset = await broker.offset(OFFSETS_TOPIC, partition, EARLIEST)
    end = await broker.offset(OFFSETS_TOPIC, partition, LATEST)
    batches = records = 0
    with SegmentWriter(target, partition) as writer:
        while offset < end:
            data = await broker.fetch(OFFSETS_TOPIC, partition, offset)
            at = 0
            try:
                while at < len(data) and at + (header := parse_header(data, at)).size <= len(data):
                    payload = data[at : at + header.size]
                    check(payload)
                    writer.write(header, payload)
                    batches, records = batches + 1, records + header.record_count
                    at, offset = at + header.size, header.next_offset
            except CorruptBatch as error:
                if at == 0:
                    raise LogToolError(f"{OFFSETS_TOPIC}-{partition}@{offset}: {error}") from error
            if at == 0:
                where = f"{OFFSETS_TOPIC}-{partition}"
                raise LogToolError(f"{where}: nothing at offset {offset}, but the end is {end}")
    return batches, records


def _write_topics(cluster: Cluster, target: Path) -> None:
    """Ids and partition counts, which `import --create-topics` wants to know."""
    topics = {
        topic.name: {
            "id": None if topic.topic_id == NO_TOPIC_ID else id_text(topic.topic_id),
            "partitions": len(topic.leaders),
        }
        for topic in sorted(cluster.topics.values(), key=lambda topic: topic.name)
    }
    (target / TOPICS_FILE).write_text(json.dumps(topics, indent=1) + "\n")
