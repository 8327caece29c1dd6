"""The tables that the pipeline reads: their columns, types and meanings.

`ENTRIES` is the log, one row a record, the same from every input (a store, a Kafka topic, raw
segment files, a Parquet copy). What a record says stands in the struct column of its type; the
others are null. Names are those of the record types of `__consumer_offsets`
(docs/spec/offsets-and-log.md#5.1). Times are UTC instants. Topic ids are UUID text, null for the
zero id.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in columns.items()])


_STRING, _INT, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()

OFFSET_COMMIT = _struct(
    offset=_LONG,
    leader_epoch=_INT,
    metadata=_STRING,
    commit_time=_TIME,
    expire_time=_TIME,
    topic_id=_STRING,
)
"""Value of `offset-commit` and `legacy-offset-commit`; topic and partition are columns of the
row."""

GROUP_METADATA = _struct(
    protocol_type=_STRING,
    generation=_INT,
    protocol=_STRING,
    leader=_STRING,
    current_state_time=_TIME,
    members=ArrayType(
        _struct(
            member_id=_STRING,
            group_instance_id=_STRING,
            client_id=_STRING,
            client_host=_STRING,
            rebalance_timeout_ms=_INT,
            session_timeout_ms=_INT,
            subscription=BinaryType(),
            assignment=BinaryType(),
        )
    ),
)
"""Value of `group-metadata`: a classic group with all of its members."""

CONSUMER_GROUP = _struct(epoch=_INT, metadata_hash=_LONG)

MEMBER_METADATA = _struct(
    instance_id=_STRING,
    rack_id=_STRING,
    client_id=_STRING,
    client_host=_STRING,
    subscribed_topic_names=ArrayType(_STRING),
    subscribed_topic_regex=_STRING,
    rebalance_timeout_ms=_INT,
    server_assignor=_STRING,
    classic=_struct(
        session_timeout_ms=_INT,
        supported_protocols=ArrayType(_struct(name=_STRING, metadata=BinaryType())),
    ),
)

TARGET_METADATA = _struct(assignment_epoch=_INT, assignment_time=_TIME)

TARGET_MEMBER = _struct(topics=ArrayType(_struct(topic_id=_STRING, partitions=ArrayType(_INT))))

_OWNED = ArrayType(
    _struct(topic_id=_STRING, partitions=ArrayType(_INT), assignment_epochs=ArrayType(_INT))
)
CURRENT_MEMBER = _struct(
    member_epoch=_INT,
    previous_member_epoch=_INT,
    state=_INT,
    assigned=_OWNED,
    pending_revocation=_OWNED,
)

REGEX = _struct(regex=_STRING, topics=ArrayType(_STRING), version=_LONG, time=_TIME)

VALUE_COLUMNS = {
    0: "offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group",
    5: "member_metadata",
    6: "target_metadata",
    7: "target_member",
    8: "current_member",
    16: "regex",
}
"""The struct column that holds the value, by record type number."""

OFFSET_COMMIT_TYPES = (0, 1)
"""The values of `record_type_id` that mean a commit or its tombstone."""

ENTRIES = _struct(
    log_partition=_INT,
    log_offset=_LONG,
    timestamp=_TIME,
    record_type=_STRING,
    record_type_id=_INT,
    value_version=_INT,
    group=_STRING,
    member=_STRING,
    topic=_STRING,
    partition=_INT,
    tombstone=BooleanType(),
    transactional=BooleanType(),
    producer_id=_LONG,
    producer_epoch=ShortType(),
    sequence=_INT,
    marker=_STRING,
    coordinator_epoch=_INT,
    offset_commit=OFFSET_COMMIT,
    group_metadata=GROUP_METADATA,
    consumer_group=CONSUMER_GROUP,
    member_metadata=MEMBER_METADATA,
    target_metadata=TARGET_METADATA,
    target_member=TARGET_MEMBER,
    current_member=CURRENT_MEMBER,
    regex=REGEX,
    key=BinaryType(),
    value=BinaryType(),
    error=_STRING,
)
"""One row for each record.

- `log_partition`, `log_offset`: its place in `__consumer_offsets`; unique together.
- `record_type`: as `groupd log dump` names it; `marker` for a control record, `unreadable` when the
  key does not name a type, `corrupt-batch` for a batch that cannot be taken apart (one row).
- `value_version`: the version in which the value was written; null for tombstones and markers.
- `tombstone`: the value is null.
- `transactional`: part of a transaction, so it counts only if the next marker of its
  `producer_id` in the same log partition is a `commit`.
- `sequence`: the producer's, -1 without one. `producer_id`, `producer_epoch`: null without one.
- `marker`: `commit` or `abort`.
- `key`, `value`: the bytes as they are in the log; read only if asked for.
- `error`: why a record could not be decoded; such rows belong in quarantine, not in results.
"""

TOPICS = _struct(topic_id=_STRING, topic=_STRING, partitions=_INT)
"""Topics by id, as far as the input knows them. `partitions`: their number, null if not known."""

END_OFFSETS = _struct(topic=_STRING, partition=_INT, end_offset=_LONG, time=_TIME)
"""High watermarks at an instant; for any instant the last one at or before it counts. Without a
time: the one at the end of the input, which says nothing about earlier times."""
