"""Copies a running cluster's offsets log into segment files.

Batches are copied byte by byte as Fetch serves them, with markers and aborted transactions. Each
partition is copied up to the end that it has when its copying begins.
"""

from __future__ import annotations

from pathlib import Path

from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.logtools.segments import SegmentWriter
from groupd.coordinator.logtools.topic_ids import write_topics
from groupd.protocol.records.batch import CorruptBatch, check, parse_header
from groupd.storage.private_files import make_private_directory

FETCH_BYTES = 8 * 1024 * 1024


def copy_log(cluster: KafkaCluster, target: Path) -> tuple[int, int, int]:
    """Copies the log. Returns (partitions, batches, records) copied. Raises KafkaError,
    LogToolError."""
    topics = calls.metadata(cluster.any(), None).topics
    offsets = topics.get(OFFSETS_TOPIC)
    if offsets is None or not offsets.partitions:
        raise KafkaError(f"the cluster has no {OFFSETS_TOPIC} yet: nobody has committed anything")
    make_private_directory(target)
    batches = records = 0
    for partition in sorted(at.partition for at in offsets.partitions):
        copied = _copy(cluster.leader(OFFSETS_TOPIC, partition), partition, target)
        batches, records = batches + copied[0], records + copied[1]
    # `import --create-topics` needs these facts, which are not in the log.
    by_name = sorted(topics.values(), key=lambda topic: topic.name)
    write_topics(target, [(one.name, one.topic_id, len(one.partitions)) for one in by_name])
    return len(offsets.partitions), batches, records


def _copy(leader: BlockingConnection, partition: int, target: Path) -> tuple[int, int]:
    offset, end = (_bound(leader, partition, which) for which in (calls.EARLIEST, calls.LATEST))
    batches = records = 0
    where = f"{OFFSETS_TOPIC}-{partition}"
    with SegmentWriter(target, partition) as writer:
        while offset < end:
            data = calls.fetch(leader, OFFSETS_TOPIC, partition, offset, FETCH_BYTES)
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
                    raise KafkaError(f"{where} at offset {offset}: {error}") from error
            if at == 0:
                raise KafkaError(f"{where}: nothing at offset {offset}, but the end is {end}")
    return batches, records


def _bound(leader: BlockingConnection, partition: int, which: int) -> int:
    found = calls.list_offsets(leader, [(OFFSETS_TOPIC, partition)], which)
    if not found:
        raise KafkaError(f"{OFFSETS_TOPIC}-{partition} cannot be read now: is it still loading?")
    return found[OFFSETS_TOPIC, partition]
