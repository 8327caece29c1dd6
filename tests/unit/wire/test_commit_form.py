"""A commit that fits the form of another one differs from it in offsets and correlation id, and in
nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from groupd.protocol.messages.offsets import OffsetCommitRequest
from groupd.protocol.wire.api import offset_commit
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.commit_form import CommitForm
from groupd.protocol.wire.header import parse_request_header
from tests.unit.wire.kio_oracle import request_entities, to_bytes

VERSIONS = range(offset_commit.API.min_version, offset_commit.API.max_version + 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def frame_of(version: int, body: bytes, correlation_id: int = 1) -> bytes:
    tags = b"\x00" if version >= 8 else b""
    head = (8).to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    return head + b"\x00\x06client" + tags + body


def form_of(frame: bytes, version: int) -> CommitForm:
    header = parse_request_header(frame, API_BY_KEY)
    return CommitForm(frame, offset_commit.offset_places(frame, header.body_offset, version))


def decoded(frame: bytes, version: int) -> OffsetCommitRequest:
    header = parse_request_header(frame, API_BY_KEY)
    return offset_commit.API.decode(frame, header.body_offset, version)


def offsets_of(request: OffsetCommitRequest) -> list[int]:
    return [entry.offset for topic in request.topics for entry in topic.partitions]


def with_offsets(request: OffsetCommitRequest, offsets: list[int]) -> OffsetCommitRequest:
    rest = iter(offsets)
    topics = tuple(
        replace(
            topic,
            partitions=tuple(replace(entry, offset=next(rest)) for entry in topic.partitions),
        )
        for topic in request.topics
    )
    return replace(request, topics=topics)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
def test_other_offsets_of_the_same_commit(version: int, data: st.DataObject) -> None:
    entity: Any = data.draw(request_entities("OffsetCommit", version))
    frame = frame_of(version, to_bytes(entity))
    form, request = form_of(frame, version), decoded(frame, version)
    assert form.offsets(frame) == tuple(offsets_of(request))
    offsets = [data.draw(INT64) for _ in offsets_of(request)]
    other = bytearray(frame)
    header = parse_request_header(frame, API_BY_KEY)
    places = offset_commit.offset_places(frame, header.body_offset, version)
    for at, offset in zip(places, offsets, strict=True):
        other[at : at + 8] = offset.to_bytes(8, "big", signed=True)
    other[4:8] = b"\x01\x02\x03\x04"
    assert decoded(bytes(other), version) == with_offsets(request, offsets)
    assert form.offsets(bytes(other)) == tuple(offsets)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
def test_whatever_else_differs_does_not_fit(version: int, data: st.DataObject) -> None:
    frame = frame_of(version, to_bytes(data.draw(request_entities("OffsetCommit", version))))
    form = form_of(frame, version)
    header = parse_request_header(frame, API_BY_KEY)
    free = set(range(4, 8)).union(
        *(
            range(at, at + 8)
            for at in offset_commit.offset_places(frame, header.body_offset, version)
        )
    )
    at = data.draw(st.sampled_from([at for at in range(len(frame)) if at not in free]))
    other = bytearray(frame)
    other[at] ^= data.draw(st.integers(1, 255))
    assert form.offsets(bytes(other)) is None
    assert form.offsets(frame[:-1]) is None
    assert form.offsets(frame + b"\x00") is None
