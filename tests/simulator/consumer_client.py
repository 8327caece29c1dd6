"""A consumer on the KIP-848 protocol that behaves like the Java client.

Joins with epoch 0 and nothing owned; sends everything after an error and only what changed
otherwise; revokes after a random time and only then takes what is new; gives everything up when
fenced and joins again under the same member id.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.simulator.client import RETRIABLE, RETRY_MS, Client, Subscription, TopicPartition

_VERSION = 1
_REJOIN_AT_ONCE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ConsumerClient(Client):
    epoch = 0

    def begin(self) -> None:
        options = self.simulation.options
        self.member_id = self.new_member_id()
        self.epoch = 0
        self.rebalance_timeout_ms = options.rebalance_timeout_ms
        self.assignor = self.world.random.choice([None, None, None, "uniform", "range", "sticky"])
        self._interval_ms = options.heartbeat_interval_ms
        self._leaving = False
        self._everything = True
        self._sent_names: Subscription | None = None
        self._sent_owned: frozenset[TopicPartition] | None = None
        self._target: frozenset[TopicPartition] | None = None
        self._revoking = False
        self._scheduled = 0
        self.tainted = False
        self._heartbeat_in(0)

    # Heartbeats

    def _heartbeat_in(self, delay_ms: int) -> None:
        """Plans the next heartbeat; one that was planned before is dropped."""
        self._scheduled += 1
        self.later(delay_ms, self._heartbeat, self._scheduled)

    def _heartbeat(self, scheduled: int) -> None:
        if scheduled != self._scheduled or self._leaving:
            return
        if self.busy("group"):
            # The answer plans the next one.
            return
        request = self._request()
        self.rpc("group", request, _VERSION, lambda reply: self._on_reply(request, reply))

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            self.group_id, self.member_id, self.epoch, self.instance_id
        )
        owned = frozenset(self.owned)
        everything = self._everything or self.epoch == 0
        if everything:
            request = replace(
                request,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                server_assignor=self.assignor,
            )
        if everything or self._sent_names != self.subscription:
            regex = self.subscription.regex
            request = replace(
                request,
                subscribed_topic_names=self.subscription.names,
                subscribed_topic_regex=regex if regex or self._sent_names else None,
            )
        if everything or self._sent_owned != owned:
            request = replace(request, topic_partitions=_reported(owned))
        return request

    def _on_reply(
        self, request: ConsumerGroupHeartbeatRequest, reply: ConsumerGroupHeartbeatReply | None
    ) -> None:
        if reply is None or reply.error in RETRIABLE:
            self._everything = True
            self._heartbeat_in(RETRY_MS)
        elif reply.error is ErrorCode.NONE:
            self._on_success(request, reply)
        else:
            self._on_error(reply.error)

    def _on_error(self, error: ErrorCode) -> None:
        self.simulation.checks.on_error(self, error)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.stop_for_good(error.name)
            return
        self._give_up_everything()
        at_once = error in _REJOIN_AT_ONCE
        self._heartbeat_in(0 if at_once else self.world.between(RETRY_MS, 5 * RETRY_MS))

    def _give_up_everything(self) -> None:
        self.epoch = 0
        self.owned = {}
        self.tainted = False
        self._target = None
        self._revoking = False
        self._everything = True

    def _on_success(
        self, request: ConsumerGroupHeartbeatRequest, reply: ConsumerGroupHeartbeatReply
    ) -> None:
        self.simulation.checks.on_epoch(self, self.epoch, reply.member_epoch)
        self.epoch = reply.member_epoch
        self._interval_ms = reply.heartbeat_interval_ms
        self._everything = False
        if request.subscribed_topic_names is not None:
            self._sent_names = Subscription(
                request.subscribed_topic_names, request.subscribed_topic_regex or ""
            )
        if request.topic_partitions is not None:
            self._sent_owned = _partitions(request.topic_partitions)
        if reply.assignment is not None:
            self._target = _partitions(reply.assignment)
        self._heartbeat_in(self._interval_ms)
        self._reconcile()

    # Reconciliation

    def _reconcile(self) -> None:
        """Works on one target at a time; a newer one is looked at when this one is through."""
        if self._target is None or self._revoking:
            return
        revoke = self.owned.keys() - self._target
        if revoke:
            self._revoking = True
            delay_ms = self.simulation.revocation_ms(self)
            self.later(delay_ms, self._revoked, frozenset(revoke), self.epoch)
        elif self._target - self.owned.keys():
            self._take_target()

    def _revoked(self, revoked: frozenset[TopicPartition], epoch: int) -> None:
        if not self._revoking or self.epoch == 0:
            return
        for partition in sorted(revoked):
            self.owned.pop(partition, None)
        self._revoking = False
        self._take_target()

    def _take_target(self) -> None:
        """Takes what the newest target has; it may still ask for more to be given up."""
        if self._target is None:
            return
        if self.busy("group"):
            # A heartbeat that speaks of what is owned is on its way: it must stay true.
            self.later(RETRY_MS, self._take_target)
            return
        for partition in sorted(self._target):
            self.take(partition)
        if self.owned.keys() - self._target:
            self._reconcile()
        if not self._leaving and self.epoch > 0:
            self._heartbeat_in(0)

    # Other things it does

    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        if self.epoch > 0:
            self._heartbeat_in(0)

    def leave(self, *, for_a_while: bool) -> None:
        epoch = -2 if for_a_while and self.instance_id is not None else -1
        self.world.trace("leave", self.name, epoch)
        self.owned = {}
        self._leaving = True
        request = ConsumerGroupHeartbeatRequest(
            self.group_id, self.member_id, epoch, self.instance_id
        )
        # Leaves are not retried.
        self.rpc("group", request, _VERSION, lambda reply: self.die())

    def say_everything(self) -> None:
        self._everything = True

    def settled_at(self) -> int | None:
        quiet = not self._revoking and self._target == frozenset(self.owned)
        return self.epoch if quiet and self.epoch > 0 else None

    def commit_identity(self) -> tuple[int, str] | None:
        return (self.epoch, self.member_id) if self.epoch > 0 else None


def _reported(owned: frozenset[TopicPartition]) -> tuple[TopicPartitions, ...]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    return tuple(TopicPartitions(topic_id, tuple(topics[topic_id])) for topic_id in topics)


def _partitions(told: tuple[TopicPartitions, ...] | Any) -> frozenset[TopicPartition]:
    return frozenset((topic.topic_id, number) for topic in told for number in topic.partitions)
