"""The handle for a share group, as tests use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.testing.answers import ShareRecord
from groupd.testing.calls import Call, SpellingHints, refuse_on_loop
from groupd.testing.watch import TIMEOUT_S

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class ShareHandle(SpellingHints):
    """`groupd.share("workers")`: the records of a share group. docs/testing.md#share-groups has the
    rules. A record is a dictionary with `topic`, `partition`, `offset`, `state` ("available",
    "acquired", "acknowledged", "archiving" or "archived"), `delivery_count`, `member_id` and
    `lock_left_ms` of its lock, and `why` it came to this state.

    >>> groupd.share("workers")
    <Share group workers>
    """

    def __init__(self, call: Call, group: str) -> None:
        self._call = call
        self.group = group

    def __repr__(self) -> str:
        return f"<Share group {self.group}>"

    def configure(self, config: Mapping[str, str]) -> None:
        """Set configs of the group, which need not exist yet: Kafka's `share.*` and
        `errors.deadletterqueue.*`. Raises RequestRefused.

        >>> groupd.share("workers").configure({"share.delivery.count.limit": "2"})
        """
        self._call("configure_share", self.group, config)

    def records(self, topic: str | None = None, partition: int | None = None) -> list[ShareRecord]:
        """The records that are under way, from the start offset on, at most 10,000: those that were
        delivered and are not over, and those that are over behind one that is not.

        >>> _ = groupd.produce("orders", ["coffee", "tea"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> share = groupd.share("workers")
        >>> [(one["state"], one["delivery_count"]) for one in share.records()]
        [('acquired', 1), ...]
        """
        found: list[ShareRecord] = self._call("share_records", self.group, topic, partition)
        return found

    def record(self, topic: str, partition: int, offset: int) -> ShareRecord:
        """One record, under way or over. Raises NotFound if no member has had it.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> (message,) = consumer.poll(10)
        >>> _ = consumer.commit_sync()
        >>> groupd.share("workers").record("orders", message.partition(), 0)["why"]
        'accepted'
        """
        found: ShareRecord = self._call("share_record", self.group, topic, partition, offset)
        return found

    def start_offsets(self) -> dict[tuple[str, int], int]:
        """Where each partition begins: all records before it are over. Partitions that no member
        has read yet are left out.

        >>> _ = groupd.produce("orders", [{"value": "coffee", "partition": 1}])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> groupd.share("workers").start_offsets()["orders", 1]
        0
        """
        found: dict[tuple[str, int], int] = self._call("share_start_offsets", self.group)
        return found

    def lag(self) -> dict[tuple[str, int], int]:
        """How many offsets of each partition are not over, as Kafka counts them: with those of
        transaction markers. Partitions that no member has read yet are left out.

        >>> _ = groupd.produce("orders", [{"value": "coffee", "partition": 1}])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> groupd.share("workers").lag()["orders", 1]
        1
        """
        found: dict[tuple[str, int], int] = self._call("share_lag", self.group)
        return found

    def wait_acquired(
        self,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """Wait until members hold at least `count` records at the same time; returns these.
        `timeout` is in seconds. Raises WaitTimeout.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> groupd.share("workers").wait_acquired(1)[0]["lock_left_ms"] > 0
        True
        """
        found: list[ShareRecord] = self._wait("acquired", count, topic, partition, timeout)
        return found

    def wait_acknowledged(
        self,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """Wait until at least `count` records were accepted; returns them.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> (message,) = consumer.poll(10)
        >>> _ = consumer.commit_sync()
        >>> len(groupd.share("workers").wait_acknowledged(1))
        1
        """
        found: list[ShareRecord] = self._wait("acknowledged", count, topic, partition, timeout)
        return found

    def wait_released(
        self,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> int:
        """Wait until records have become available again at least `count` times, because a member
        has released them, or has gone, or a lock has ended. Returns how often it was.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> fired = groupd.clock.advance(30_000)
        >>> groupd.share("workers").wait_released(1)
        1
        """
        released: int = self._wait("released", count, topic, partition, timeout)
        return released

    def wait_archived(
        self,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """Wait until at least `count` records were given up: rejected, or delivered as often as
        allowed. Returns them, and `why`: "rejected", "delivery limit", "aborted" for records of
        aborted transactions, or "log start" for records that were deleted.

        >>> from confluent_kafka import AcknowledgeType
        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer(
        ...     "workers", "orders", share_acknowledgement_mode="explicit"
        ... )
        >>> (message,) = consumer.poll(10)
        >>> consumer.acknowledge(message, AcknowledgeType.REJECT)
        >>> _ = consumer.commit_sync()
        >>> groupd.share("workers").wait_archived(1)[0]["why"]
        'rejected'
        """
        found: list[ShareRecord] = self._wait("archived", count, topic, partition, timeout)
        return found

    def _wait(self, what: str, *given: Any) -> Any:
        name = f"wait_share_{what}"
        refuse_on_loop(name)
        return self._call(name, self.group, *given)
