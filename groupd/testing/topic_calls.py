"""Calls of `GroupCoordinator` for topics and their records. In the examples `groupd` is a broker
with a topic `orders` of three partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from groupd.testing.arguments import check_arguments
from groupd.testing.calls import HarnessCalls
from groupd.testing.operations import Operations
from groupd.testing.records import RecordLike, TestRecord
from groupd.testing.topic_reader import READ_COMMITTED, Isolation
from groupd.testing.watch import TIMEOUT_S

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class TopicCalls(HarnessCalls):
    """They raise NotFound for a topic that does not exist, and RequestRefused."""

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create one topic. `config`: topic configs by Kafka's names.

        >>> groupd.create_topic("state", 6, {"cleanup.policy": "compact"})
        >>> groupd.topics()
        {'orders': 3, 'state': 6}
        """
        self._call("create_topic", name, partitions, config)

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create several topics: name -> partitions.

        >>> groupd.create_topics({"payments": 6, "refunds": 3})
        """
        self._call("create_topics", topics)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. The offsets committed for it are deleted a little later.

        >>> groupd.delete_topic("orders")
        >>> groupd.topics()
        {}
        """
        self._call("delete_topic", name)

    def topics(self) -> dict[str, int]:
        """The number of partitions by topic name, without internal topics.

        >>> groupd.topics()
        {'orders': 3}
        """
        return cast("dict[str, int]", self._call("topics"))

    def produce(self, topic: str, records: Iterable[RecordLike]) -> list[TestRecord]:
        """Append records and wait until they are durable. Returns them with partition and offset.

        A record is bytes, str (UTF-8), None (a tombstone), a `TestRecord`, or a mapping with
        `value` and, if wanted, `key`, `headers`, `partition` and `timestamp_ms`. Without a
        partition it goes where Java's producer would put it.

        >>> groupd.produce("orders", ["coffee", {"value": "milk", "key": "k", "partition": 2}])
        [<TestRecord 0@0 b'coffee'>, <TestRecord 2@0 b'k'=b'milk'>]
        """
        check_arguments(Operations.produce, (topic, records), {})
        return cast("list[TestRecord]", self._call("produce", topic, list(records)))

    def records(
        self, topic: str, partition: int | None = None, *, isolation: Isolation = READ_COMMITTED
    ) -> list[TestRecord]:
        """The records of a topic, or of one partition, in the order of partition and offset,
        whoever has produced them. `isolation` "read_committed" leaves out what a consumer with that
        isolation level does not get: aborted and open transactions.

        >>> _ = groupd.produce("orders", ["coffee", "tea"])
        >>> [record.value for record in groupd.records("orders")]
        [b'coffee', b'tea']
        """
        found = self._call("records", topic, partition, isolation=isolation)
        return cast("list[TestRecord]", found)

    def wait_records(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        isolation: Isolation = READ_COMMITTED,
        timeout: float = TIMEOUT_S,
    ) -> list[TestRecord]:
        """Wait until the topic (or the partition) has at least `count` records, as `records` reads
        them, and return all that it has then. A topic that does not exist yet is waited for.
        `timeout` is in seconds. Raises WaitTimeout.

        >>> producer = groupd.producer()
        >>> producer.produce("orders", b"coffee")
        >>> groupd.wait_records("orders", 1)[0].value
        b'coffee'
        """
        given = {"partition": partition, "isolation": isolation, "timeout": timeout}
        return cast("list[TestRecord]", self._wait("wait_records", topic, count, **given))
