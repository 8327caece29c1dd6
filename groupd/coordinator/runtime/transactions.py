"""The group side of transactions: TxnOffsetCommit (28), and markers for `__consumer_offsets`.

Rules (docs/spec/offsets-and-log.md#2.1, #2.2 and #3.4): the transaction coordinator is asked before
the shard. It is not asked if the producer's transaction is open in the shard's log already, or
(before v5) if verification is off. From v5 on the same question adds the partition to the
transaction. If a marker ends the transaction before the answer comes, the answer does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core.frontend import offsets
from groupd.coordinator.core.offsets.refusals import refuse_txn_commit
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.dispatch import is_long, merge_topics, split_topics
from groupd.coordinator.runtime.served_shards import Shard
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import Callback, Gather, Part
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.offsets import TxnOffsetCommitReply, TxnOffsetCommitRequest
from groupd.protocol.wire.registry import Failure

ABORTABLE_FROM = 4
"""The first version that knows TRANSACTION_ABORTABLE."""
ADDS_FROM = 5
"""The first version that adds the partition to the transaction."""

_SHOWN: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
"""What clients get instead of codes that are not meant for them
(docs/spec/offsets-and-log.md#2.2)."""


# Commits ------------------------------------------------------------------------------------


def txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> None:
    """The route of TxnOffsetCommit. The pieces of a long request are handled one after the other:
    the first may have to add the partition to the transaction."""
    if not is_long(request.topics):
        _commit(broker, context, request)
        return
    context.token.block_connection()
    broker.tasks.run(context.token, _in_pieces(broker, context, request))


async def _in_pieces(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> None:
    waiter = context.token
    pieces = await broker.work.run(split_topics(request.topics))
    parts: list[TxnOffsetCommitReply] = []
    for topics in pieces:
        await broker.work.turn()  # so that pieces that are refused at once do not hold the loop
        piece = replace(request, topics=topics)
        part = _Piece(piece, waiter.failure, parts.append)
        _commit(broker, broker.part(context, part), piece)
        await part.ended.wait()
        if part.lost:
            waiter.forget()
            waiter.on_no_reply()
            return
    waiter.answer(
        TxnOffsetCommitReply(await broker.work.run(merge_topics(part.topics for part in parts)))
    )


class _Piece(Callback):
    """A piece of a request. `ended` is set when it is answered, or `lost`."""

    __slots__ = ("ended", "lost")

    def __init__(self, request: Any, failure: Failure, receive: Callable[[Any], None]) -> None:
        super().__init__(request, failure, receive)
        self.ended = asyncio.Event()
        self.lost = False

    def send(self, reply: Any) -> None:
        super().send(reply)
        self.ended.set()

    def on_no_reply(self) -> None:
        self.lost = True
        self.ended.set()


def _commit(broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest) -> None:
    kept, finish = offsets.admit_txn_commit(context, request, broker.image)
    if kept is None:
        context.token.answer(finish(None) if finish else None)
        return
    gather = Gather(context.token, 1, lambda parts: finish(parts[0]) if finish else parts[0])
    part = Part(kept, partial(_refuse, context.api_version), gather, 0)
    broker.waiting.add(part)
    if not broker.started:
        part.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    if not kept.group_id:
        part.fail(ErrorCode.INVALID_GROUP_ID)
        return
    shard = broker.shard_of(kept.group_id)

    async def verify_and_commit() -> None:
        code = await _verify(broker, shard, context, kept)
        if code:
            part.fail(code)
        else:
            broker.ask(shard, context, part)

    if _must_verify(broker, shard, context, kept):
        broker.tasks.run(part, verify_and_commit())
    else:
        broker.ask(shard, context, part)


def _refuse(
    api_version: int, request: TxnOffsetCommitRequest, code: ErrorCode, _: str | None
) -> TxnOffsetCommitReply:
    return refuse_txn_commit(request, code, api_version)


def _must_verify(
    broker: Broker, shard: Shard, context: RequestContext, request: TxnOffsetCommitRequest
) -> bool:
    if shard.state is not CoordinatorState.ACTIVE:
        return False  # refused anyway
    enforced = broker.config.transaction_partition_verification_enable
    if not enforced and context.api_version < ADDS_FROM:
        return False
    return not shard.producers.in_transaction(request.producer_id, request.producer_epoch)


async def _verify(
    broker: Broker, shard: Shard, context: RequestContext, request: TxnOffsetCommitRequest
) -> ErrorCode:
    """Ask the transaction coordinator whether the transaction is open. Returns NONE if it is: then
    the shard must be asked at once."""
    add = context.api_version >= ADDS_FROM
    producers = shard.producers
    producer = request.producer_id, request.producer_epoch
    place = (OFFSETS_TOPIC, shard.partition)
    try:
        # Commits have no sequences.
        verification = producers.start_verification(*producer, 0, bumps_epoch=add)
        write = TransactionalWrite(request.transactional_id, *producer, (place,))
        codes = await broker.verifier.verify(write, add=add)
        code = codes.get(place, ErrorCode.NONE)
        if code:
            return _shown(code, context.api_version)
        if shard.producers is not producers:
            return ErrorCode.NOT_COORDINATOR  # the shard was loaded anew meanwhile
        if broker.config.transaction_partition_verification_enable:
            producers.check_verified(*producer, verification)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _shown(code: ErrorCode, api_version: int) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return _SHOWN.get(code, code)


# Markers ------------------------------------------------------------------------------------


class OffsetsMarkers:
    """The `MarkerTarget` of `__consumer_offsets`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def write_marker(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Write the marker as `MarkerTarget` says. A shard that does not serve answers with the
        error code of its state."""
        asked = [(place, self._ask(marker, place[1])) for place in partitions]
        return {place: await answer for place, answer in asked}

    def _ask(self, marker: Marker, partition: int) -> asyncio.Future[ErrorCode]:
        broker = self._broker
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def resolve(code: ErrorCode) -> None:
            if not answer.done():
                answer.set_result(code)

        if not 0 <= partition < broker.shard_count:
            resolve(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif not broker.started:
            resolve(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            waiter = Callback(marker, _its_code, resolve)
            broker.waiting.add(waiter)
            broker.served.asked(partition).write_marker(marker, waiter)
        return answer


def _its_code(_: Marker, code: ErrorCode, __: str | None) -> ErrorCode:
    """The `Failure` of a marker, which is answered with a code alone."""
    return code
