"""Records of a share group in several states, for what people see of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.clients.share import ShareGroup, ShareWay

RECORDS = 10
TIMEOUT_S = 30.0


@contextmanager
def records_under_way(bootstrap: str, group_id: str, topic: str, directory: Path) -> Iterator[None]:
    """A member gets the offsets 0 to 9 of a topic with one partition: it accepts two, rejects the
    offset 4, and releases the others, which come again. It holds these."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0
    group = ShareGroup(bootstrap, group_id, directory)
    try:
        member = group.member(ShareWay("confluent"), [topic])
        records = member.poll_records()
        assert len(records) == RECORDS
        member.acknowledge("accept", records[:2])
        member.acknowledge("reject", records[4:5])
        member.acknowledge("release", records[2:4] + records[5:])
        member.commit()
        again = member.poll_records()
        assert [(one.offset, one.count) for one in again] == [
            (at, 2) for at in (2, 3, *range(5, 10))
        ]
        yield
    finally:
        group.close()
