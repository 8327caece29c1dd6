"""Copies the logs of a running cluster's groups into segment files.

Batches are copied byte by byte as Fetch serves them, with markers and aborted transactions. Each
partition is copied up to the end that it has when its copying begins.
"""

from __future__ import annotations

from pathlib import Path

from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.logtools.logs import LOGS, OFFSETS_LOG, ToolLog
from groupd.coordinator.logtools.segments import SegmentWriter, log_name
from groupd.coordinator.logtools.topic_ids import write_topics
from groupd.protocol.records.batch import CorruptBatch, check, parse_header
from groupd.storage.private_files import make_private_directory

FETCH_BYTES = 8 * 1024 * 1024


def copy_log(cluster: KafkaCluster, target: Path) -> tuple[int, int, int]:
    """Copies the offsets log, and that of share groups' state if there is one. Returns (partitions,
    batches, records) copied. Raises KafkaError, LogToolError."""
    topics = calls.metadata(cluster.any(), None).topics
    offsets = topics.get(OFFSETS_LOG.topic)
    if offsets is None or not offsets.partitions:
        raise KafkaError(
            f"the cluster has no {OFFSETS_LOG.topic} yet: nobody has committed anything"
        )
    make_private_directory(target)
    partitions = batches = records = 0
    for log in LOGS:
        there = topics[log.topic].partitions if log.topic in topics else []
        for partition in sorted(at.partition for at in there):
            copied = _copy(cluster.leader(log.topic, partition), log, partition, target)
            batches, records = batches + copied[0], records + copied[1]
        partitions += len(there)
    # `import --create-topics` needs these facts, which are not in the log.
    by_name = sorted(topics.values(), key=lambda topic: topic.name)
    write_topics(target, [(one.name, one.topic_id, len(one.partitions)) for one in by_name])
    return partitions, batches, records


def _copy(
    leader: BlockingConnection, log: ToolLog, partition: int, target: Path
) -> tuple[int, int]:
    where = log_name(partition, log)
    offset, end = (
        _bound(leader, log.topic, partition, which) for which in (calls.EARLIEST, calls.LATEST)
    )
    batches = records = 0
    with SegmentWriter(target, partition, log=log) as writer:
        while offset < end:
            data = calls.fetch(leader, log.topic, partition, offset, FETCH_BYTES)
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


def _bound(leader: BlockingConnection, topic: str, partition: int, which: int) -> int:
    found = calls.list_offsets(leader, [(topic, partition)], which)
    if not found:
        raise KafkaError(f"{topic}-{partition} cannot be read now: is it still loading?")
    return found[topic, partition]
