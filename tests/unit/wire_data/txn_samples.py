"""Requests and replies of transactions, as in `data_samples`."""

from __future__ import annotations

from typing import Any

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import transactions as m
from tests.unit.wire_data.data_samples import INT32_MAX, INT64_MAX, NAME, Sample, since

TOPICS = (m.TxnTopic(NAME, (0, INT32_MAX)), m.TxnTopic("u", ()))
TOPIC_VALUES = [
    {"name": NAME, "partitions": (0, INT32_MAX)},
    {"name": "u", "partitions": ()},
]


def add_partitions_to_txn(version: int) -> Sample:
    first = m.AddPartitionsTransaction(NAME, INT64_MAX, 32767, TOPICS, version >= 4)
    second = m.AddPartitionsTransaction("x", 1, 0, ())
    message = m.AddPartitionsToTxnRequest((first, second) if version >= 4 else (first,))
    return message, {
        "transactions": [
            _transaction(NAME, INT64_MAX, 32767, True, TOPIC_VALUES),
            _transaction("x", 1, 0, False, []),
        ],
        "v3_and_below_transactional_id": NAME,
        "v3_and_below_producer_id": INT64_MAX,
        "v3_and_below_producer_epoch": 32767,
        "v3_and_below_topics": TOPIC_VALUES,
    }


def _transaction(
    name: str, producer_id: int, epoch: int, verify: bool, topics: list[Any]
) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "verify_only": verify,
        "topics": topics,
    }


def add_partitions_to_txn_reply(version: int) -> Sample:
    partitions = ((0, ErrorCode.NONE), (INT32_MAX, ErrorCode.TRANSACTION_ABORTABLE))
    first = m.AddedTransaction(NAME, (m.AddedTopic(NAME, partitions), m.AddedTopic("u", ())))
    topics = [
        {
            "name": NAME,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": int(code)}
                for index, code in partitions
            ],
        },
        {"name": "u", "results_by_partition": []},
    ]
    more = (m.AddedTransaction("x", ()),) if version >= 4 else ()
    return m.AddPartitionsToTxnReply((first, *more)), {
        "throttle_time_ms": 0,
        "error_code": 0,
        "results_by_transaction": [
            {"transactional_id": NAME, "topic_results": topics},
            {"transactional_id": "x", "topic_results": []},
        ],
        "results_by_topic_v3_and_below": topics,
    }


def add_offsets_to_txn(_: int) -> Sample:
    return m.AddOffsetsToTxnRequest(NAME, INT64_MAX, 32767, "g"), {
        "transactional_id": NAME,
        "producer_id": INT64_MAX,
        "producer_epoch": 32767,
        "group_id": "g",
    }


def add_offsets_to_txn_reply(_: int) -> Sample:
    return m.AddOffsetsToTxnReply(ErrorCode.PRODUCER_FENCED), {
        "throttle_time_ms": 0,
        "error_code": int(ErrorCode.PRODUCER_FENCED),
    }


def end_txn(_: int) -> Sample:
    return _end(True)


def end_txn_abort(_: int) -> Sample:
    return _end(False)


def _end(committed: bool) -> Sample:
    return m.EndTxnRequest(NAME, INT64_MAX, 32767, committed), {
        "transactional_id": NAME,
        "producer_id": INT64_MAX,
        "producer_epoch": 32767,
        "committed": committed,
    }


def end_txn_reply(_: int) -> Sample:
    return m.EndTxnReply(ErrorCode.NONE, INT64_MAX, 32767), {
        "throttle_time_ms": 0,
        "error_code": 0,
        "producer_id": INT64_MAX,
        "producer_epoch": 32767,
    }


def describe_transactions(_: int) -> Sample:
    return m.DescribeTransactionsRequest((NAME, "")), {"transactional_ids": (NAME, "")}


def describe_transactions_reply(_: int) -> Sample:
    found = m.DescribedTransaction(
        NAME,
        state="PrepareCommit",
        timeout_ms=60_000,
        start_time_ms=1_700_000_000_000,
        producer_id=INT64_MAX,
        producer_epoch=32767,
        topics=TOPICS,
    )
    missing = m.DescribedTransaction("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return m.DescribeTransactionsReply((found, missing)), {
        "throttle_time_ms": 0,
        "transaction_states": [
            {
                "error_code": 0,
                "transactional_id": NAME,
                "transaction_state": "PrepareCommit",
                "transaction_timeout_ms": 60_000,
                "transaction_start_time_ms": 1_700_000_000_000,
                "producer_id": INT64_MAX,
                "producer_epoch": 32767,
                "topics": [
                    {"topic": NAME, "partitions": (0, INT32_MAX)},
                    {"topic": "u", "partitions": ()},
                ],
            },
            {
                "error_code": int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
                "transactional_id": "x",
                "transaction_state": "",
                "transaction_timeout_ms": 0,
                "transaction_start_time_ms": 0,
                "producer_id": 0,
                "producer_epoch": 0,
                "topics": [],
            },
        ],
    }


def list_transactions(version: int) -> Sample:
    message = m.ListTransactionsRequest(
        ("Ongoing", NAME),
        (INT64_MAX, 0),
        since(version, 1, 1000, -1),
        since(version, 2, "a.*", None),
    )
    return message, {
        "state_filters": ("Ongoing", NAME),
        "producer_id_filters": (INT64_MAX, 0),
        "duration_filter": 1000,
        "transactional_id_pattern": "a.*",
    }


def list_transactions_all(_: int) -> Sample:
    return m.ListTransactionsRequest(), {
        "state_filters": (),
        "producer_id_filters": (),
        "duration_filter": -1,
        "transactional_id_pattern": None,
    }


def list_transactions_reply(_: int) -> Sample:
    found = m.ListedTransaction(NAME, INT64_MAX, "Ongoing")
    return m.ListTransactionsReply((found,), (NAME,)), {
        "throttle_time_ms": 0,
        "error_code": 0,
        "unknown_state_filters": (NAME,),
        "transaction_states": [
            {
                "transactional_id": NAME,
                "producer_id": INT64_MAX,
                "transaction_state": "Ongoing",
            }
        ],
    }
