"""What DeleteGroups and DescribeGroups say of groups that they cannot serve, in every version.

Holds for a real broker too (GROUPD_PEER=kafka).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.support.peer import Peer, make_peer, running
from tests.support.process import wait_until
from tests.support.raw import RawConnection, frame, request, string
from tests.support.wire_client import WireClient
from tests.support.wire_requests import commit

DELETE_GROUPS = 42
NONE, NON_EMPTY, NOT_FOUND = 0, 68, 69


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with running(make_peer(tmp_path_factory.mktemp("peer"), topics={"t": 1})) as made:
        yield made


class Fields:
    """Reads the fields of a reply, in the older encoding or the compact one."""

    def __init__(self, data: bytes, compact: bool) -> None:
        self._data, self._at, self._compact = data, 0, compact

    def take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def length(self, layout: str) -> int:
        """The length of a string or an array; -1 for null."""
        return self.number("B") - 1 if self._compact else self.number(layout)

    def string(self) -> str | None:
        length = self.length(">h")
        return None if length < 0 else self.take(length).decode()

    def end(self) -> None:
        assert not self._compact or self.take(1) == b"\x00"


def deleted(port: int, version: int, groups: list[str]) -> list[tuple[str | None, int, str | None]]:
    compact = version >= 2
    if compact:
        names = b"".join(bytes([len(one) + 1]) + one.encode() for one in groups)
        body = b"\x00" + bytes([len(groups) + 1]) + names + b"\x00"
    else:
        body = struct.pack(">i", len(groups)) + b"".join(map(string, groups))
    with RawConnection(port) as connection:
        connection.send(frame(request(DELETE_GROUPS, version, 1, body)))
        _, data = connection.reply()
    fields = Fields(data, compact)
    fields.end()  # of the header
    assert fields.number(">i") == 0
    found = []
    for _ in range(fields.length(">i")):
        name, code = fields.string(), fields.number(">h")
        found.append((name, code, fields.string() if version >= 3 else None))
        fields.end()
    fields.end()
    assert fields.take(1) == b""
    return found


@pytest.mark.parametrize("version", range(4))
def test_what_became_of_each_group(client: WireClient, peer: Peer, version: int) -> None:
    """The last version has room for a message, which Kafka leaves empty for these groups."""
    gone, lives, unknown = (f"{name}-{version}" for name in ("gone", "lives", "unknown"))
    wait_for_shards(client, gone)

    def committed() -> bool:
        api, number, fields = commit(gone, 1)
        topics = [{**fields["topics"][0], "name": "t"}]
        reply = client.call(api, number, **{**fields, "topics": topics})
        return reply["topics"][0]["partitions"][0]["error_code"] == NONE

    wait_until(committed, 30, "the group's shard", peer.logs)
    join(client, lives)
    results = deleted(peer.port, version, [gone, lives, unknown, unknown])
    assert sorted(results, key=repr) == [
        (gone, NONE, None),
        (lives, NON_EMPTY, None),
        (unknown, NOT_FOUND, None),
    ]


@pytest.mark.parametrize("version", range(7))
def test_a_consumer_group_is_no_classic_group(client: WireClient, version: int) -> None:
    group, unknown = f"new-{version}", f"unknown-{version}"
    wait_for_shards(client, group)
    join(client, group)
    described = client.call("DescribeGroups", version, groups=[group, unknown])["groups"]
    assert {one["group_state"] for one in described} == {"Dead"}
    code = NOT_FOUND if version >= 6 else NONE
    assert {one["group_id"]: one["error_code"] for one in described} == {group: code, unknown: code}
    if version >= 6:
        messages = {one["group_id"]: one["error_message"] for one in described}
        assert messages == {
            group: f"Group {group} is not a classic group.",
            unknown: f"Group {unknown} not found.",
        }


def wait_for_shards(client: WireClient, group: str) -> None:
    """Kafka makes the offsets topic when somebody asks for a coordinator."""

    def found() -> bool:
        reply = client.call("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
        return bool(reply["coordinators"][0]["error_code"] == NONE)

    wait_until(found, 30, "a coordinator")


def join(client: WireClient, group: str) -> None:
    """A member of a new consumer group."""

    def joined() -> bool:
        reply = client.call(
            "ConsumerGroupHeartbeat",
            1,
            group_id=group,
            member_id="m",
            member_epoch=0,
            subscribed_topic_names=["t"],
            rebalance_timeout=9000,
            topic_partitions=(),
        )
        return bool(reply["error_code"] == NONE)

    wait_until(joined, 30, "the member has joined")
