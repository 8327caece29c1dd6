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
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in columns.items()])


STRING, INT, LONG, TIME = StringType(), IntegerType(), LongType(), TimestampType()
DOUBLE, BOOL, STRINGS = DoubleType(), BooleanType(), ArrayType(StringType())

OFFSET_COMMIT = struct(
    offset=LONG,
    leader_epoch=INT,
    metadata=STRING,
    commit_time=TIME,
    expire_time=TIME,
    topic_id=STRING,
)
"""Value of `offset-commit` and `legacy-offset-commit`; topic and partition are columns of the
row."""

GROUP_METADATA = struct(
    protocol_type=STRING,
    generation=INT,
    protocol=STRING,
    leader=STRING,
    current_state_time=TIME,
    members=ArrayType(
        struct(
            member_id=STRING,
            group_instance_id=STRING,
            client_id=STRING,
            client_host=STRING,
            rebalance_timeout_ms=INT,
            session_timeout_ms=INT,
            subscription=BinaryType(),
            assignment=BinaryType(),
        )
    ),
)
"""Value of `group-metadata`: a classic group with all of its members."""

CONSUMER_GROUP = struct(epoch=INT, metadata_hash=LONG)
"""Value of the records of consumer and share groups themselves."""

MEMBER_METADATA = struct(
    instance_id=STRING,
    rack_id=STRING,
    client_id=STRING,
    client_host=STRING,
    subscribed_topic_names=STRINGS,
    subscribed_topic_regex=STRING,
    rebalance_timeout_ms=INT,
    server_assignor=STRING,
    classic=struct(
        session_timeout_ms=INT,
        supported_protocols=ArrayType(struct(name=STRING, metadata=BinaryType())),
    ),
)

TARGET_METADATA = struct(assignment_epoch=INT, assignment_time=TIME)

_ASSIGNED = ArrayType(struct(topic_id=STRING, partitions=ArrayType(INT)))
TARGET_MEMBER = struct(topics=_ASSIGNED)

_OWNED = ArrayType(
    struct(topic_id=STRING, partitions=ArrayType(INT), assignment_epochs=ArrayType(INT))
)
CURRENT_MEMBER = struct(
    member_epoch=INT,
    previous_member_epoch=INT,
    state=INT,
    assigned=_OWNED,
    pending_revocation=_OWNED,
)

REGEX = struct(regex=STRING, topics=STRINGS, version=LONG, time=TIME)

SHARE_MEMBER = struct(
    rack_id=STRING, client_id=STRING, client_host=STRING, subscribed_topic_names=STRINGS
)

SHARE_CURRENT_MEMBER = struct(
    member_epoch=INT, previous_member_epoch=INT, state=INT, assigned=_ASSIGNED
)

_STATE_PARTITIONS = ArrayType(struct(topic_id=STRING, topic_name=STRING, partitions=ArrayType(INT)))
SHARE_PARTITIONS = struct(
    initializing=_STATE_PARTITIONS,
    initialized=_STATE_PARTITIONS,
    deleting=ArrayType(struct(topic_id=STRING, topic_name=STRING)),
)
"""Which share-partitions of a group have state."""

VALUE_COLUMNS = {
    0: "offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group",
    5: "member_metadata",
    6: "target_metadata",
    7: "target_member",
    8: "current_member",
    10: "share_member",
    11: "share_group",
    12: "share_target",
    13: "share_target_member",
    14: "share_current_member",
    15: "share_partitions",
    16: "regex",
}
"""The struct column that holds the value, by record type number."""

OFFSET_COMMIT_TYPES = (0, 1)
"""The values of `record_type_id` that mean a commit or its tombstone."""

ENTRIES = struct(
    log_partition=INT,
    log_offset=LONG,
    timestamp=TIME,
    record_type=STRING,
    record_type_id=INT,
    value_version=INT,
    group=STRING,
    member=STRING,
    topic=STRING,
    partition=INT,
    tombstone=BOOL,
    transactional=BOOL,
    producer_id=LONG,
    producer_epoch=ShortType(),
    sequence=INT,
    marker=STRING,
    coordinator_epoch=INT,
    offset_commit=OFFSET_COMMIT,
    group_metadata=GROUP_METADATA,
    consumer_group=CONSUMER_GROUP,
    member_metadata=MEMBER_METADATA,
    target_metadata=TARGET_METADATA,
    target_member=TARGET_MEMBER,
    current_member=CURRENT_MEMBER,
    share_member=SHARE_MEMBER,
    share_group=CONSUMER_GROUP,
    share_target=TARGET_METADATA,
    share_target_member=TARGET_MEMBER,
    share_current_member=SHARE_CURRENT_MEMBER,
    share_partitions=SHARE_PARTITIONS,
    regex=REGEX,
    key=BinaryType(),
    value=BinaryType(),
    error=STRING,
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

SHARE_ENTRIES = struct(
    log_partition=INT,
    log_offset=LONG,
    timestamp=TIME,
    record_type=STRING,
    record_type_id=INT,
    value_version=INT,
    group=STRING,
    topic_id=STRING,
    partition=INT,
    tombstone=BOOL,
    snapshot_epoch=INT,
    state_epoch=INT,
    leader_epoch=INT,
    start_offset=LONG,
    create_time=TIME,
    write_time=TIME,
    batches=ArrayType(
        struct(first_offset=LONG, last_offset=LONG, delivery_state=INT, delivery_count=INT)
    ),
    delivery_complete_count=INT,
    key=BinaryType(),
    value=BinaryType(),
    error=STRING,
)
"""One row for each record of `__share_group_state` (docs/spec/share-group.md#3): `share-snapshot`,
the whole state of a share-partition, or `share-update`, what is new since then.

- `log_partition` to `value_version`, `tombstone`, `key`, `value`, `error`: as in `ENTRIES`.
- `state_epoch`, `create_time`, `write_time`: only of snapshots.
- `leader_epoch`, `start_offset`, `delivery_complete_count`: null where the record has -1, which
  means not known, or in an update not changed.
- `batches`: sorted ranges of offsets. `delivery_state`: 0 available, 2 acknowledged, 3 archiving, 4
  archived.
"""

TOPICS = struct(topic_id=STRING, topic=STRING, partitions=INT)
"""Topics by id, as far as the input knows them. `partitions`: their number, null if not known."""

END_OFFSETS = struct(topic=STRING, partition=INT, end_offset=LONG, time=TIME)
"""High watermarks at an instant; for any instant the last one at or before it counts. Without a
time: the one at the end of the input, which says nothing about earlier times."""
