"""Versions that kio does not know: bytes by hand, after the schemas of Kafka 4.4
(`ApiVersionsRequest.json`, `DeleteGroupsResponse.json`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiVersionsReply, ApiVersionsRequest, Feature
from groupd.protocol.messages.groups import DeletedGroup, DeleteGroupsReply, DeleteGroupsRequest
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.registry import MalformedRequest
from tests.unit.wire.kio_oracle import NEWER_THAN_KIO, kio_class

API_VERSIONS, DELETE_GROUPS = API_BY_KEY[18], API_BY_KEY[42]
SOFTWARE = b"\x05java" + b"\x044.4"
REQUESTS: list[Any] = [
    pytest.param(
        API_VERSIONS,
        SOFTWARE + b"\x03id" + b"\x00\x00\x00\x07" + b"\x00",
        ApiVersionsRequest("java", "4.4", "id", 7),
        id="ApiVersions with a node",
    ),
    pytest.param(
        API_VERSIONS,
        SOFTWARE + b"\x00" + b"\xff\xff\xff\xff" + b"\x00",
        ApiVersionsRequest("java", "4.4"),
        id="ApiVersions without a node",
    ),
    pytest.param(
        DELETE_GROUPS, b"\x03" + b"\x02a" + b"\x01" + b"\x00", DeleteGroupsRequest(("a", "")),
        id="DeleteGroups",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("api", "body", "expected"), REQUESTS)
def test_requests(api: Any, body: bytes, expected: Any) -> None:
    assert api.decode(b"header" + body + b"behind", 6, api.max_version) == expected
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            api.decode(body[:length], 0, api.max_version)


def test_delete_groups_says_why() -> None:
    reply = DeleteGroupsReply(
        (DeletedGroup("a"), DeletedGroup("bc", ErrorCode.NON_EMPTY_GROUP, "it lives"))
    )
    throttle = bytes(4)
    first, second = b"\x02a" + b"\x00\x00", b"\x03bc" + b"\x00\x44"
    bodies = {
        2: throttle + b"\x03" + first + b"\x00" + second + b"\x00" + b"\x00",
        3: throttle + b"\x03" + first + b"\x00\x00" + second + b"\x09it lives\x00" + b"\x00",
    }
    for version, body in bodies.items():
        assert DELETE_GROUPS.encode(reply, version) == body


def test_api_versions_answers_as_in_version_4() -> None:
    reply = ApiVersionsReply(features=(Feature("group.version", 1, 0, 1),))
    assert API_VERSIONS.encode(reply, 5) == API_VERSIONS.encode(reply, 4)


def test_kio_does_not_know_them_yet() -> None:
    """Once it does, it is the better oracle."""
    for key, version in NEWER_THAN_KIO:
        assert version == API_BY_KEY[key].max_version
        name = API_BY_KEY[key].name
        assert kio_class(name, version - 1, "request")
        with pytest.raises(ModuleNotFoundError):
            import_module(kio_class(name, version - 1, "request").__module__.replace(
                f"v{version - 1}", f"v{version}"))  # fmt: skip
