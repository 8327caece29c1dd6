"""Transactions, their producers, and the markers that end them."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.producers import (
    ActiveProducer,
    DescribedPartition,
    DescribedProducersTopic,
    DescribeProducersReply,
    DescribeProducersRequest,
    DescribeProducersTopic,
    MarkedTopic,
    MarkerTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
    WrittenMarker,
)
from groupd.protocol.messages.transactions import (
    AddedTopic,
    AddedTransaction,
    AddOffsetsToTxnReply,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnReply,
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
    DescribedTransaction,
    DescribeTransactionsReply,
    DescribeTransactionsRequest,
    EndTxnReply,
    EndTxnRequest,
    ListedTransaction,
    ListTransactionsReply,
    ListTransactionsRequest,
    TxnTopic,
)
from groupd.protocol.schema import array, lone, of_whole, struct
from groupd.protocol.wire.registry import api, code_only, on_each, on_partitions

_PARTITION_ERROR = struct(tuple, "0:int32 1:error")

# v2 is flexible, v3 adds the producer id and epoch to resume with, v4 and v5 only add error codes.
# v6, two-phase commit (KIP-939), is unstable in Kafka 4.4: its brokers do not offer it.
INIT_PRODUCER_ID = api(
    22,
    "0-5",
    "2+",
    struct(
        InitProducerIdRequest,
        "transactional_id:string? transaction_timeout_ms:int32 producer_id:int64@3+ "
        "producer_epoch:int16@3+",
    ),
    struct(InitProducerIdReply, "throttle error:error producer_id:int64 producer_epoch:int16"),
    code_only(InitProducerIdReply),
)

_ADDED = struct(
    AddedTransaction,
    "transactional_id:string@4+ topics:[]topic",
    topic=struct(AddedTopic, "name:string partitions:[]partition", partition=_PARTITION_ERROR),
)
_ADD = struct(
    AddPartitionsTransaction,
    "transactional_id:string producer_id:int64 producer_epoch:int16 verify_only:bool@4+ "
    "topics:[]topic",
    topic=struct(TxnTopic, "name:string partitions:[]int32"),
)


def _all_failed(asked: AddPartitionsTransaction, code: ErrorCode) -> AddedTransaction:
    def topic(topic: TxnTopic) -> AddedTopic:
        return AddedTopic(topic.name, mapped(lambda item: (item, code), topic.partitions))

    return AddedTransaction(asked.transactional_id, mapped(topic, asked.topics))


def _add_partitions_failure(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _: str | None
) -> AddPartitionsToTxnReply:
    """The error on every partition in v0-3, on the whole request in later versions."""
    failed = mapped(lambda one: _all_failed(one, code), request.transactions)
    return AddPartitionsToTxnReply(failed, code)


# v2 allows PRODUCER_FENCED, v3 is flexible, v4 carries several transactions, a verify-only flag and
# an error of the whole request (from brokers only, KIP-890), v5 allows TRANSACTION_ABORTABLE. v0-3
# have one transaction.
ADD_PARTITIONS_TO_TXN = api(
    24,
    "0-5",
    "3+",
    struct(
        AddPartitionsToTxnRequest,
        "transactions:only@0-3 transactions:[]transaction@4+",
        only=lone(_ADD),
        transaction=_ADD,
    ),
    struct(
        AddPartitionsToTxnReply,
        "throttle error:error@4+ transactions:only@0-3 transactions:unless_error@4+",
        only=lone(_ADDED),
        unless_error=of_whole(
            array(_ADDED), lambda reply: () if reply.error else reply.transactions
        ),
    ),
    _add_partitions_failure,
)

# v2 allows PRODUCER_FENCED, v3 is flexible, v4 allows TRANSACTION_ABORTABLE.
ADD_OFFSETS_TO_TXN = api(
    25,
    "0-4",
    "3+",
    struct(
        AddOffsetsToTxnRequest,
        "transactional_id:string producer_id:int64 producer_epoch:int16 group_id:string",
    ),
    struct(AddOffsetsToTxnReply, "throttle error:error"),
    code_only(AddOffsetsToTxnReply),
)

# v2 allows PRODUCER_FENCED, v3 is flexible, v4 allows TRANSACTION_ABORTABLE, v5 bumps the epoch of
# every transaction and answers with the new one (KIP-890).
END_TXN = api(
    26,
    "0-5",
    "3+",
    struct(
        EndTxnRequest,
        "transactional_id:string producer_id:int64 producer_epoch:int16 committed:bool",
    ),
    struct(EndTxnReply, "throttle error:error producer_id:int64@5+ producer_epoch:int16@5+"),
    code_only(EndTxnReply),
)


def _marking_failed(asked: WritableMarker, code: ErrorCode, _: str | None) -> WrittenMarker:
    def topic(topic: MarkerTopic) -> MarkedTopic:
        return MarkedTopic(topic.name, mapped(lambda item: (item, code), topic.partitions))

    return WrittenMarker(asked.producer_id, mapped(topic, asked.topics))


# With this request the transaction coordinator tells the logs how a transaction has ended. v2 adds
# the transaction version (KIP-1228). Both versions are flexible.
WRITE_TXN_MARKERS = api(
    27,
    "1-2",
    "1+",
    struct(
        WriteTxnMarkersRequest,
        "markers:[]marker",
        marker=struct(
            WritableMarker,
            "producer_id:int64 producer_epoch:int16 committed:bool topics:[]topic "
            "coordinator_epoch:int32 transaction_version:int8@2+",
            topic=struct(MarkerTopic, "name:string partitions:[]int32"),
        ),
    ),
    struct(
        WriteTxnMarkersReply,
        "markers:[]marker",
        marker=struct(
            WrittenMarker,
            "producer_id:int64 topics:[]topic",
            topic=struct(
                MarkedTopic, "name:string partitions:[]partition", partition=_PARTITION_ERROR
            ),
        ),
    ),
    on_each(WriteTxnMarkersReply, "markers", _marking_failed),
)

# The producers of a partition, and their open transactions in it.
DESCRIBE_PRODUCERS = api(
    61,
    "0",
    "0+",
    struct(
        DescribeProducersRequest,
        "topics:[]topic",
        topic=struct(DescribeProducersTopic, "name:string partitions:[]int32"),
    ),
    struct(
        DescribeProducersReply,
        "throttle topics:[]topic",
        topic=struct(
            DescribedProducersTopic,
            "name:string partitions:[]partition",
            partition=struct(
                DescribedPartition,
                "partition:int32 error:error error_message:string? producers:[]producer",
                producer=struct(
                    ActiveProducer,
                    "producer_id:int64 producer_epoch:int32 last_sequence:int32 "
                    "last_timestamp_ms:int64 coordinator_epoch:int32 transaction_offset:int64",
                ),
            ),
        ),
    ),
    on_partitions(DescribeProducersReply, DescribedProducersTopic, DescribedPartition),
)

# Always flexible (KIP-664).
DESCRIBE_TRANSACTIONS = api(
    65,
    "0",
    "0+",
    struct(DescribeTransactionsRequest, "transactional_ids:[]string"),
    struct(
        DescribeTransactionsReply,
        "throttle transactions:[]transaction",
        transaction=struct(
            DescribedTransaction,
            "error:error transactional_id:string state:string timeout_ms:int32 "
            "start_time_ms:int64 producer_id:int64 producer_epoch:int16 topics:[]topic",
            topic=struct(TxnTopic, "name:string partitions:[]int32"),
        ),
    ),
    on_each(
        DescribeTransactionsReply,
        "transactional_ids",
        lambda name, code, _: DescribedTransaction(name, code),
    ),
)

# Always flexible (KIP-664). v1 adds the filter by duration (KIP-994), v2 the filter by a pattern of
# the transactional id (KIP-1152).
LIST_TRANSACTIONS = api(
    66,
    "0-2",
    "0+",
    struct(
        ListTransactionsRequest,
        "states:[]string producer_ids:[]int64 duration_ms:int64@1+ pattern:string?@2+",
    ),
    struct(
        ListTransactionsReply,
        "throttle error:error unknown_states:[]string transactions:[]transaction",
        transaction=struct(
            ListedTransaction, "transactional_id:string producer_id:int64 state:string"
        ),
    ),
    code_only(ListTransactionsReply),
)
