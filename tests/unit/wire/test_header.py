"""Request and response headers."""

from __future__ import annotations

from struct import pack

import pytest
from msgspec.structs import astuple

from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import (
    RequestHeader,
    reply_frame,
)
from groupd.protocol.wire.header import parse_request_header as parse
from groupd.protocol.wire.registry import MalformedRequest


def parse_request_header(frame: bytes) -> RequestHeader:
    return parse(frame, API_BY_KEY)


def fixed(api_key: int, version: int, correlation_id: int = 7) -> bytes:
    return pack(">hhi", api_key, version, correlation_id)


def client(name: str) -> bytes:
    return pack(">h", len(name.encode())) + name.encode()


def test_header_v0_of_controlled_shutdown_has_no_client_id() -> None:
    assert parse_request_header(fixed(7, 0) + b"body") == RequestHeader(7, 0, 7, None, 8)


def test_header_v1_of_an_older_version() -> None:
    frame = fixed(12, 3, -5) + client("zoë") + b"body"
    header = parse_request_header(frame)
    assert astuple(header)[:4] == (12, 3, -5, "zoë")
    assert frame[header.body_offset :] == b"body"


def test_header_v2_of_a_flexible_version_keeps_the_older_client_id() -> None:
    frame = fixed(12, 4) + client("me") + b"\x00body"
    header = parse_request_header(frame)
    assert astuple(header)[:4] == (12, 4, 7, "me")
    assert frame[header.body_offset :] == b"body"


@pytest.mark.parametrize("version", [3, 4])
def test_null_client_id_is_none_and_empty_is_empty(version: int) -> None:
    assert parse_request_header(fixed(12, version) + b"\xff\xff\x00").client_id is None
    assert parse_request_header(fixed(12, version) + b"\x00\x00\x00").client_id == ""


def test_header_v2_skips_tagged_fields() -> None:
    tagged = b"\x02" + b"\x00\x03abc" + b"\x85\x01\x00"
    frame = fixed(12, 4) + client("me") + tagged + b"body"
    assert frame[parse_request_header(frame).body_offset :] == b"body"


def test_unknown_api_and_unknown_version_still_parse() -> None:
    """The caller decides; ApiVersions of a future version has to be answered (KIP-511)."""
    assert parse_request_header(fixed(999, 3) + client("me")) == RequestHeader(999, 3, 7, "me", 12)
    frame = fixed(18, 99) + client("me") + b"\x00\x01"
    assert parse_request_header(frame) == RequestHeader(18, 99, 7, "me", len(frame) - 1)


def test_header_version_follows_the_flexible_version() -> None:
    for api in API_BY_KEY.values():
        for version in range(api.min_version, api.max_version + 1):
            frame = fixed(api.key, version) + client("me") + b"\x00"
            at_body = len(frame) if api.flexible(version) else len(frame) - 1
            assert parse_request_header(frame).body_offset == at_body, (api.name, version)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        pytest.param(b"", "header: it ends too early", id="empty"),
        pytest.param(fixed(12, 3)[:-1], "header: it ends too early", id="short-fixed-part"),
        pytest.param(fixed(12, 3), "header: it ends too early", id="no-client-id"),
        pytest.param(fixed(12, 3) + b"\x00", "header: it ends too early", id="half-a-length"),
        pytest.param(
            fixed(12, 3) + b"\x00\x05abcd", "client id of 5 bytes, 4 left", id="short-client-id"
        ),
        pytest.param(
            fixed(12, 3) + b"\x7f\xff", "client id of 32767 bytes, 0 left", id="long-client-id"
        ),
        pytest.param(fixed(12, 3) + b"\xff\xfe", "client id of -2 bytes", id="negative-length"),
        pytest.param(
            fixed(12, 3) + b"\x00\x02\xff\xfe", "header: a text is not UTF-8", id="no-utf-8"
        ),
        pytest.param(
            fixed(12, 4) + client("me"), "header: it ends too early", id="no-tagged-fields"
        ),
        pytest.param(
            fixed(12, 4) + client("me") + b"\x01",
            "header: 1 tagged fields, 0 bytes left",
            id="tag-missing",
        ),
        pytest.param(
            fixed(12, 4) + client("me") + b"\x01\x00\x05abcd",
            "header: 5 bytes announced, 4 left",
            id="short-tagged-field",
        ),
        pytest.param(
            fixed(12, 4) + client("me") + b"\xff\xff\xff\xff\x0f",
            "header: 4294967295 tagged fields, 0 bytes left",
            id="many-tags",
        ),
        pytest.param(
            fixed(12, 4) + client("me") + b"\xff" * 9 + b"\x01",
            "header: varint longer than five bytes",
            id="long-varint",
        ),
    ],
)
def test_bad_header_is_malformed(frame: bytes, said: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_request_header(frame)
    assert str(caught.value) == said


def test_reply_frames() -> None:
    assert (
        reply_frame(7, b"body", tagged=False) == b"\x00\x00\x00\x08" + b"\x00\x00\x00\x07" + b"body"
    )
    assert reply_frame(-2, bytearray(b"body"), tagged=True) == (
        b"\x00\x00\x00\x09" + b"\xff\xff\xff\xfe" + b"\x00" + b"body"
    )


def test_reply_header_is_v1_for_flexible_versions_but_never_for_api_versions() -> None:
    def tagged(api_key: int, *api_versions: int) -> list[bool]:
        return [version >= API_BY_KEY[api_key].tagged_replies_from for version in api_versions]

    assert tagged(12, 0, 1, 2, 3, 4) == [False, False, False, False, True]
    assert not any(tagged(18, 0, 1, 2, 3, 4, 99))
    assert tagged(47, 0) == [False]
