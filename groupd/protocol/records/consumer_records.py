"""Values of consumer group records, types 3-8 and 16 (docs/spec/offsets-and-log.md#5.1).

All are version 0 and flexible. A tagged field that has its default is not written. Unknown tags are
ignored (KIP-915), so a log that a newer version has written stays readable. Each function reads or
writes one value after its version.
"""

from __future__ import annotations

from struct import Struct

from groupd.protocol.messages import shared_topic_id
from groupd.protocol.reader import BadBytes, Reader
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
from groupd.protocol.writer import Writer

_METADATA_HASH_TAG = 0
_ASSIGNMENT_TIMESTAMP_TAG = 0
_CLASSIC_MEMBER_TAG = 0
_ASSIGNMENT_EPOCHS_TAG = 0
_INT64 = Struct(">q")
_EPOCHS_AND_STATE = Struct(">iib")


def _end_with_int64(writer: Writer, tag: int, value: int) -> None:
    if value:
        writer.tagged_field(tag, _INT64.pack(value))
    writer.end()


def _end_with_tagged_int64(reader: Reader, tag: int) -> int:
    """Reads the end of a struct. Returns its tagged int64 `tag`, 0 if it is absent."""
    payload = reader.tagged_fields().get(tag)
    reader.end()
    value: int = 0
    if payload is not None:
        (value,) = _INT64.unpack(payload)
    return value


def write_group_metadata(writer: Writer, value: ConsumerGroupMetadataValue) -> None:
    writer.int32(value.epoch)
    _end_with_int64(writer, _METADATA_HASH_TAG, value.metadata_hash)


def read_group_metadata(reader: Reader) -> ConsumerGroupMetadataValue:
    return ConsumerGroupMetadataValue(
        reader.int32(), _end_with_tagged_int64(reader, _METADATA_HASH_TAG)
    )


def write_partition_metadata(writer: Writer, value: ConsumerGroupPartitionMetadataValue) -> None:
    """Only for logs that tests make: since KIP-1101 only the tombstone of such a key is written."""
    writer.buffer += value.raw


def read_partition_metadata(reader: Reader) -> ConsumerGroupPartitionMetadataValue:
    return ConsumerGroupPartitionMetadataValue(reader.take(len(reader.data) - reader.at))


def write_member_metadata(writer: Writer, value: ConsumerGroupMemberMetadataValue) -> None:
    writer.nullable_string(value.instance_id)
    writer.nullable_string(value.rack_id)
    writer.string(value.client_id)
    writer.string(value.client_host)
    writer.array(value.subscribed_topic_names, Writer.string)
    writer.nullable_string(value.subscribed_topic_regex)
    writer.int32(value.rebalance_timeout_ms)
    writer.nullable_string(value.server_assignor)
    if value.classic is not None:
        writer.tagged_field(_CLASSIC_MEMBER_TAG, _encode_classic(value.classic))
    writer.end()


def _encode_classic(classic: ClassicMemberMetadata) -> bytes:
    writer = Writer(flexible=True)
    # A nullable struct in a tagged field starts with an unsigned varint: 1 present, 0 null.
    writer.int8(1)
    writer.int32(classic.session_timeout_ms)
    for protocol in writer.structs(classic.supported_protocols):
        writer.string(protocol.name)
        writer.bytes_(protocol.metadata)
    writer.end()
    return bytes(writer.buffer)


def read_member_metadata(reader: Reader) -> ConsumerGroupMemberMetadataValue:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        subscribed_topic_names=reader.array(Reader.string),
        subscribed_topic_regex=reader.nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        server_assignor=reader.nullable_string(),
        classic=_decode_classic(reader.tagged_fields().get(_CLASSIC_MEMBER_TAG)),
    )
    reader.end()
    return value


def _decode_classic(payload: bytes | None) -> ClassicMemberMetadata | None:
    if payload is None:
        return None
    reader = Reader(payload, 0, 0, flexible=True)
    present = reader.uvarint()
    if present > 1:
        raise BadBytes("nullable struct that is neither present nor null")
    classic = None
    if present:
        classic = ClassicMemberMetadata(reader.int32(), reader.structs(_read_protocol))
        reader.end()
    reader.finish()
    return classic


def _read_protocol(reader: Reader) -> ClassicProtocol:
    return ClassicProtocol(reader.string(), reader.bytes_())


def write_target_metadata(writer: Writer, value: ConsumerGroupTargetMetadataValue) -> None:
    writer.int32(value.assignment_epoch)
    _end_with_int64(writer, _ASSIGNMENT_TIMESTAMP_TAG, value.assignment_timestamp_ms)


def read_target_metadata(reader: Reader) -> ConsumerGroupTargetMetadataValue:
    return ConsumerGroupTargetMetadataValue(
        reader.int32(), _end_with_tagged_int64(reader, _ASSIGNMENT_TIMESTAMP_TAG)
    )


def write_target_member(writer: Writer, value: ConsumerGroupTargetMemberValue) -> None:
    for topic in writer.structs(value.topics):
        writer.uuid(topic.topic_id)
        writer.int32_array(topic.partitions)
    writer.end()


def read_target_member(reader: Reader) -> ConsumerGroupTargetMemberValue:
    value = ConsumerGroupTargetMemberValue(reader.structs(_read_assigned))
    reader.end()
    return value


def _read_assigned(reader: Reader) -> AssignedTopic:
    return AssignedTopic(shared_topic_id(reader.uuid()), reader.int32_array())


def write_current_member(writer: Writer, value: ConsumerGroupCurrentMemberValue) -> None:
    writer.buffer += _EPOCHS_AND_STATE.pack(
        value.member_epoch, value.previous_member_epoch, value.state
    )
    for owned in (value.assigned, value.pending_revocation):
        for topic in writer.structs(owned):
            writer.uuid(topic.topic_id)
            writer.int32_array(topic.partitions)
            if topic.assignment_epochs is not None:
                epochs = Writer(flexible=True)
                epochs.int32_array(topic.assignment_epochs)
                writer.tagged_field(_ASSIGNMENT_EPOCHS_TAG, bytes(epochs.buffer))
    writer.end()


def read_current_member(reader: Reader) -> ConsumerGroupCurrentMemberValue:
    member_epoch, previous_member_epoch, state = reader.unpack(_EPOCHS_AND_STATE)
    assigned, pending = reader.structs(_read_owned), reader.structs(_read_owned)
    reader.end()
    return ConsumerGroupCurrentMemberValue(
        member_epoch, previous_member_epoch, state, assigned, pending
    )


def _read_owned(reader: Reader) -> OwnedTopic:
    topic_id, partitions = shared_topic_id(reader.uuid()), reader.int32_array()
    payload = reader.tagged_fields().get(_ASSIGNMENT_EPOCHS_TAG)
    epochs = None
    if payload is not None:
        tagged = Reader(payload, 0, 0, flexible=True)
        epochs = tagged.nullable_int32_array()
        tagged.finish()
    # If there are not as many epochs as partitions, they cannot be matched: then there are none.
    if epochs is not None and len(epochs) != len(partitions):
        epochs = None
    return OwnedTopic(topic_id, partitions, epochs)


def write_regex(writer: Writer, value: ConsumerGroupRegexValue) -> None:
    writer.array(value.topics, Writer.string)
    writer.int64(value.version)
    writer.int64(value.timestamp_ms)
    writer.end()


def read_regex(reader: Reader) -> ConsumerGroupRegexValue:
    value = ConsumerGroupRegexValue(reader.array(Reader.string), reader.int64(), reader.int64())
    reader.end()
    return value
