"""Fetch (1), v4-18.

v5 adds the log start offset, v7 sessions and the top-level error, v9 the current leader epoch, v11
rack and preferred read replica, v12 is flexible and adds the last fetched epoch and the diverging
epoch, v13 names topics by id, v15 moves the replica id into a tagged field, v16 adds node endpoints
to the reply, v17 and v18 only add tagged fields that replicas send.

This is a hot path: records are appended to the reply as they come from the log, in one copy.
Cluster id, replica directory id and a replica's high watermark are skipped, because only replicas
send them and groupd's partitions have one replica. The preferred read replica is always -1, and
there is never a snapshot id (KRaft logs only).
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    FetchDataTopic,
    FetchedDataTopic,
    FetchedPartition,
    FetchPartition,
    FetchReply,
    FetchRequest,
    ForgottenTopic,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.schema import converted, struct
from groupd.protocol.wire.api.produce import ENDPOINT, LEADER
from groupd.protocol.wire.registry import api


def _failure(request: FetchRequest, code: ErrorCode, _: str | None) -> FetchReply:
    """The error is at the top, for v7 and later, and on every partition, for older versions."""

    def topic(asked: FetchDataTopic) -> FetchedDataTopic:
        partitions = mapped(lambda item: FetchedPartition(item.partition, code), asked.partitions)
        return FetchedDataTopic(asked.name, asked.topic_id, partitions)

    return FetchReply(error=code, topics=mapped(topic, request.topics))


_NAME_OR_ID = "name:string@0-12 topic_id:uuid@13+"

FETCH = api(
    1,
    "4-18",
    "12+",
    struct(
        FetchRequest,
        "replica_id:int32@0-14 max_wait_ms:int32 min_bytes:int32 max_bytes:int32 "
        "isolation_level:int8 session_id:int32@7+ session_epoch:int32@7+ topics:[]topic "
        "forgotten:[]forgotten@7+ rack_id:string@11+ replica_id:replica@15+#1",
        topic=struct(
            FetchDataTopic,
            f"{_NAME_OR_ID} partitions:[]partition",
            partition=struct(
                FetchPartition,
                "partition:int32 current_leader_epoch:int32@9+ fetch_offset:int64 "
                "last_fetched_epoch:int32@12+ log_start_offset:int64@5+ partition_max_bytes:int32",
            ),
        ),
        forgotten=struct(ForgottenTopic, f"{_NAME_OR_ID} partitions:[]int32"),
        replica=struct(None, "replica_id:int32 -:int64=-1"),
    ),
    struct(
        FetchReply,
        "throttle error:error@7+ session_id:int32@7+ topics:[]topic node_endpoints:[]node@16+#0",
        topic=struct(
            FetchedDataTopic,
            f"{_NAME_OR_ID} partitions:[]partition",
            partition=struct(
                FetchedPartition,
                "partition:int32 error:error high_watermark:int64 last_stable_offset:int64 "
                "log_start_offset:int64@5+ aborted:[]aborted? -:int32=-1@11+ records:records "
                "diverging_epoch:diverging@12+#0 current_leader:leader@12+#1",
                aborted=struct(tuple, "0:int64 1:int64"),
                records=converted("records", read=lambda records: records or b""),
                diverging=struct(tuple, "0:int32 1:int64"),
                leader=LEADER,
            ),
        ),
        node=ENDPOINT,
    ),
    _failure,
)
