"""Members of a classic group of any protocol type that say exactly what a test lets them say, over
TCP: workers of Kafka Connect, schema registries, consumers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.kio_entities import Plain
from tests.support.wire_client import TIMEOUT_S, NoReply, WireClient

MEMBER_ID_REQUIRED = 79
JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
SESSION_MS, REBALANCE_MS = 10_000, 20_000


class ClassicMember:
    """One member with a connection of its own. `generation` and `leader` follow the replies."""

    def __init__(
        self,
        address: tuple[str, int],
        group: str,
        protocol_type: str = "consumer",
        protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
        **join_fields: Any,
    ) -> None:
        self.client = WireClient(*address, f"{protocol_type}-client")
        self.group, self.protocol_type, self.protocols = group, protocol_type, protocols
        self.member_id, self.generation, self.leader, self.protocol = "", -1, "", ""
        self._join_fields = {
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            **join_fields,
        }

    @property
    def leads(self) -> bool:
        return self.leader == self.member_id

    def send_join(self) -> None:
        """JoinGroup; a first one is only asked for an id (KIP-394), which is taken here."""
        if not self.member_id:
            self.send_join_once()
            first = self.client.receive()
            assert first["error_code"] == MEMBER_ID_REQUIRED, first
            self.member_id = first["member_id"]
        self.send_join_once()

    def send_join_once(self) -> None:
        protocols = [{"name": name, "metadata": data} for name, data in self.protocols]
        fields = {
            "group_id": self.group,
            "member_id": self.member_id,
            "protocol_type": self.protocol_type,
            "protocols": protocols,
        }
        self.client.send("JoinGroup", JOIN, {**self._join_fields, **fields})

    def joined(self, timeout_s: float = TIMEOUT_S) -> Plain:
        """The reply to JoinGroup. Raises NoReply."""
        reply = self.client.receive(timeout_s)
        if reply["error_code"] == 0:
            self.generation, self.leader = reply["generation_id"], reply["leader"]
            self.protocol = reply["protocol_name"]
        return reply

    def send_sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        """SyncGroup; `assignments` (member id -> bytes) are the leader's."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignments": [
                {"member_id": member_id, "assignment": data}
                for member_id, data in (assignments or {}).items()
            ],
        }
        self.client.send("SyncGroup", SYNC, fields)

    def synced(self) -> Plain:
        """The reply to SyncGroup."""
        return self.client.receive()

    def heartbeat(self) -> int:
        """Sends a heartbeat; the error code of its reply."""
        reply = self.client.call(
            "Heartbeat",
            HEARTBEAT,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
        )
        return int(reply["error_code"])

    def leave(self) -> None:
        leaving = [{"member_id": self.member_id, "group_instance_id": None}]
        reply = self.client.call("LeaveGroup", LEAVE, group_id=self.group, members=leaving)
        assert [one["error_code"] for one in reply["members"]] == [0]

    def reconnect(self) -> None:
        """Takes another connection; what the old one waited for is given up."""
        host, port = self.client.host, self.client.port
        self.client.close()
        self.client = WireClient(host, port, self.client.client_id)

    def close(self) -> None:
        self.client.close()


def rebalance(*members: ClassicMember, timeout_s: float = 10.0) -> ClassicMember:
    """Lets all of them join one generation; returns its leader. A member that is through before the
    others have come joins again, as a client does that hears of the rebalance by its heartbeat."""
    deadline = time.monotonic() + timeout_s
    for member in members:
        member.send_join()
    while waiting := [member for member in members if member.client.unanswered]:
        assert time.monotonic() < deadline, f"{len(waiting)} members wait for a generation"
        for member in waiting:
            with contextlib.suppress(NoReply):
                reply = member.joined(0.1)
                assert reply["error_code"] == 0, reply
        if any(member.client.unanswered for member in members):
            for member in members:
                if not member.client.unanswered:
                    member.send_join()
    assert len({member.generation for member in members}) == 1
    (leader,) = [member for member in members if member.leads]
    return leader


def assign(leader: ClassicMember, plan: Mapping[ClassicMember, bytes]) -> None:
    """Everybody in `plan` is given its bytes by `leader`."""
    for member in plan:
        by_id = {one.member_id: data for one, data in plan.items()}
        member.send_sync(by_id if member is leader else None)
    for member, data in plan.items():
        reply = member.synced()
        assert (reply["error_code"], reply["assignment"]) == (0, data)
