"""Values of consumer group records, types 3-8 and 16 (spec: offsets and log, section 5.1).

All are version 0 and flexible. A tagged field at its default is not written; unknown tags are
passed over (KIP-915), so a log written by a newer version stays readable.
"""

from __future__ import annotations

from groupd.protocol.records.primitives import (
    INT32,
    INT64,
    NO_TAGS,
    BadBytes,
    Reader,
    compact_array,
    compact_blob,
    compact_int32_array,
    compact_nullable_string,
    compact_string,
    tagged,
    uvarint,
)
from groupd.protocol.records.schema import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataValue,
    OwnedTopic,
)

_VERSION_0 = b"\x00\x00"
_METADATA_HASH_TAG = 0
_ASSIGNMENT_TIMESTAMP_TAG = 0
_CLASSIC_MEMBER_TAG = 0
_ASSIGNMENT_EPOCHS_TAG = 0


def _tagged_int64(tag: int, value: int) -> bytes:
    return tagged(tag, INT64.pack(value)) if value else NO_TAGS


def _read_tagged_int64(reader: Reader, wanted: int) -> int:
    """The int64 of tag `wanted`, else 0."""
    value = 0
    for tag, payload in reader.tags():
        if tag == wanted:
            value = payload.int64()
            payload.end()
    return value


def encode_group_metadata(value: ConsumerGroupMetadataValue) -> bytes:
    tags = _tagged_int64(_METADATA_HASH_TAG, value.metadata_hash)
    return _VERSION_0 + INT32.pack(value.epoch) + tags


def decode_group_metadata(reader: Reader) -> ConsumerGroupMetadataValue:
    return ConsumerGroupMetadataValue(
        reader.int32(), _read_tagged_int64(reader, _METADATA_HASH_TAG)
    )


def encode_partition_metadata(value: ConsumerGroupPartitionMetadataValue) -> bytes:
    """Only for logs made in tests: KIP-1101 left nothing but its tombstone to be written."""
    return _VERSION_0 + value.raw


def decode_partition_metadata(reader: Reader) -> ConsumerGroupPartitionMetadataValue:
    return ConsumerGroupPartitionMetadataValue(reader.take(len(reader.data) - reader.position))


def encode_member_metadata(value: ConsumerGroupMemberMetadataValue) -> bytes:
    return b"".join(
        (
            _VERSION_0,
            compact_nullable_string(value.instance_id),
            compact_nullable_string(value.rack_id),
            compact_string(value.client_id),
            compact_string(value.client_host),
            compact_array(value.subscribed_topic_names, compact_string),
            compact_nullable_string(value.subscribed_topic_regex),
            INT32.pack(value.rebalance_timeout_ms),
            compact_nullable_string(value.server_assignor),
            NO_TAGS if value.classic is None else _encode_classic(value.classic),
        )
    )


def _encode_classic(classic: ClassicMemberMetadata) -> bytes:
    def protocol(item: ClassicProtocol) -> bytes:
        return compact_string(item.name) + compact_blob(item.metadata) + NO_TAGS

    # A nullable struct inside a tag starts with an unsigned varint: 1 present, 0 null.
    payload = (
        uvarint(1)
        + INT32.pack(classic.session_timeout_ms)
        + compact_array(classic.supported_protocols, protocol)
        + NO_TAGS
    )
    return tagged(_CLASSIC_MEMBER_TAG, payload)


def decode_member_metadata(reader: Reader) -> ConsumerGroupMemberMetadataValue:
    instance_id = reader.nullable_string()
    rack_id = reader.nullable_string()
    client_id = reader.string()
    client_host = reader.string()
    subscribed_topic_names = reader.array(reader.string)
    subscribed_topic_regex = reader.nullable_string()
    rebalance_timeout_ms = reader.int32()
    server_assignor = reader.nullable_string()
    classic = None
    for tag, payload in reader.tags():
        if tag == _CLASSIC_MEMBER_TAG:
            classic = _decode_classic(payload)
            payload.end()
    return ConsumerGroupMemberMetadataValue(
        instance_id,
        rack_id,
        client_id,
        client_host,
        subscribed_topic_names,
        subscribed_topic_regex,
        rebalance_timeout_ms,
        server_assignor,
        classic,
    )


def _decode_classic(reader: Reader) -> ClassicMemberMetadata | None:
    presence = reader.uvarint()
    if presence == 0:
        return None
    if presence != 1:
        raise BadBytes("nullable struct that is neither present nor null")

    def protocol() -> ClassicProtocol:
        result = ClassicProtocol(reader.string(), reader.blob())
        reader.end_struct()
        return result

    classic = ClassicMemberMetadata(reader.int32(), reader.array(protocol))
    reader.end_struct()
    return classic


def encode_target_metadata(value: ConsumerGroupTargetMetadataValue) -> bytes:
    tags = _tagged_int64(_ASSIGNMENT_TIMESTAMP_TAG, value.assignment_timestamp_ms)
    return _VERSION_0 + INT32.pack(value.assignment_epoch) + tags


def decode_target_metadata(reader: Reader) -> ConsumerGroupTargetMetadataValue:
    return ConsumerGroupTargetMetadataValue(
        reader.int32(), _read_tagged_int64(reader, _ASSIGNMENT_TIMESTAMP_TAG)
    )


def encode_target_member(value: ConsumerGroupTargetMemberValue) -> bytes:
    def topic(item: AssignedTopic) -> bytes:
        return item.topic_id + compact_int32_array(item.partitions) + NO_TAGS

    return _VERSION_0 + compact_array(value.topics, topic) + NO_TAGS


def decode_target_member(reader: Reader) -> ConsumerGroupTargetMemberValue:
    def topic() -> AssignedTopic:
        result = AssignedTopic(reader.uuid(), reader.int32_array())
        reader.end_struct()
        return result

    value = ConsumerGroupTargetMemberValue(reader.array(topic))
    reader.end_struct()
    return value


def _encode_owned(topic: OwnedTopic) -> bytes:
    epochs = topic.assignment_epochs
    tags = (
        NO_TAGS if epochs is None else tagged(_ASSIGNMENT_EPOCHS_TAG, compact_int32_array(epochs))
    )
    return topic.topic_id + compact_int32_array(topic.partitions) + tags


def encode_current_member(value: ConsumerGroupCurrentMemberValue) -> bytes:
    return b"".join(
        (
            _VERSION_0,
            INT32.pack(value.member_epoch),
            INT32.pack(value.previous_member_epoch),
            bytes((value.state,)),
            compact_array(value.assigned, _encode_owned),
            compact_array(value.pending_revocation, _encode_owned),
            NO_TAGS,
        )
    )


def decode_current_member(reader: Reader) -> ConsumerGroupCurrentMemberValue:
    def owned() -> OwnedTopic:
        topic_id = reader.uuid()
        partitions = reader.int32_array()
        epochs = None
        for tag, payload in reader.tags():
            if tag == _ASSIGNMENT_EPOCHS_TAG:
                epochs = payload.nullable_int32_array()
                payload.end()
        # Epochs of a wrong length say nothing about any partition: treated as missing.
        if epochs is not None and len(epochs) != len(partitions):
            epochs = None
        return OwnedTopic(topic_id, partitions, epochs)

    value = ConsumerGroupCurrentMemberValue(
        member_epoch=reader.int32(),
        previous_member_epoch=reader.int32(),
        state=reader.int8(),
        assigned=reader.array(owned),
        pending_revocation=reader.array(owned),
    )
    reader.end_struct()
    return value


def encode_regex(value: ConsumerGroupRegexValue) -> bytes:
    return b"".join(
        (
            _VERSION_0,
            compact_array(value.topics, compact_string),
            INT64.pack(value.version),
            INT64.pack(value.timestamp_ms),
            NO_TAGS,
        )
    )


def decode_regex(reader: Reader) -> ConsumerGroupRegexValue:
    value = ConsumerGroupRegexValue(reader.array(reader.string), reader.int64(), reader.int64())
    reader.end_struct()
    return value
