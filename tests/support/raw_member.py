"""Members of a KIP-848 group that say exactly what a test lets them say, over TCP."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any, Protocol

from tests.support.kio_entities import Plain
from tests.support.process import POLL_S, WaitTimeout
from tests.support.wire_client import WireClient

Owned = dict[str, list[int]]


class Reached(Protocol):
    """A broker."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Served(Reached, Protocol):
    """A broker with an admin port: a started daemon, or one of the harness."""

    @property
    def admin_url(self) -> str | None: ...


class RawMember:
    """One member with a connection of its own. `epoch` and `owned` follow the replies; what it owns
    is only sent when a test says so."""

    def __init__(
        self, broker: Reached, group: str, member: str, topic_ids: dict[str, bytes]
    ) -> None:
        self.client = WireClient(broker.host, broker.port, member)
        self.group, self.member = group, member
        self.epoch = 0
        self.owned: Owned = {}
        self._ids = topic_ids
        self._names = {topic_id: name for name, topic_id in topic_ids.items()}

    def join(self, topics: list[str], **fields: Any) -> Plain:
        """The first heartbeat: everything is said."""
        self.epoch = 0
        said = {"rebalance_timeout": 60_000, "topic_partitions": (), **fields}
        return self.beat(subscribed_topic_names=topics, **said)

    def beat(self, version: int = 1, **fields: Any) -> Plain:
        """A heartbeat with these fields; all others are null, that is, unchanged."""
        said = {"group_id": self.group, "member_id": self.member, "member_epoch": self.epoch}
        reply = self.client.call("ConsumerGroupHeartbeat", version, **{**said, **fields})
        if reply["error_code"] == 0:
            self.epoch = reply["member_epoch"]
            if reply["assignment"] is not None:
                self.owned = {
                    self._names[one["topic_id"]]: one["partitions"]
                    for one in reply["assignment"]["topic_partitions"]
                }
        return reply

    def acknowledge(self) -> Plain:
        """A heartbeat that tells what the member owns now, as a client does after a change."""
        held = [
            {"topic_id": self._ids[name], "partitions": numbers}
            for name, numbers in self.owned.items()
        ]
        return self.beat(topic_partitions=held)

    def close(self) -> None:
        self.client.close()


def settle(*members: RawMember, timeout_s: float = 10.0) -> None:
    """Lets the members heartbeat and acknowledge until all are at one epoch and nothing moves."""
    deadline = time.monotonic() + timeout_s
    quiet = 0
    while quiet < 2:
        before = [(member.epoch, dict(member.owned)) for member in members]
        for member in members:
            reply = member.acknowledge()
            assert reply["error_code"] == 0, reply
        after = [(member.epoch, dict(member.owned)) for member in members]
        same = before == after and len({member.epoch for member in members}) == 1
        quiet = quiet + 1 if same else 0
        if time.monotonic() > deadline:
            raise WaitTimeout(f"members do not settle: {after}")


def topic_ids(broker: Reached) -> dict[str, bytes]:
    """The ids of all topics, by name."""
    with WireClient(broker.host, broker.port) as client:
        reply = client.call("Metadata", 12, topics=None)
    return {topic["name"]: topic["topic_id"] for topic in reply["topics"]}


def admin_json(daemon: Served, path: str) -> Any:
    """The answer of the admin port; None for 404."""
    try:
        with urllib.request.urlopen(f"{daemon.admin_url}{path}", timeout=5) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise


def wait_for_events(daemon: Served, group: str, kind: str, count: int = 1) -> list[Plain]:
    """The events of one kind, once there are so many."""
    deadline = time.monotonic() + 15
    while True:
        shown = admin_json(daemon, f"/groups/{group}/events")
        found = [event for event in shown if event["event"] == kind]
        if len(found) >= count:
            return found
        if time.monotonic() > deadline:
            raise WaitTimeout(f"no {count} {kind} events of {group}: {shown}")
        time.sleep(POLL_S)
