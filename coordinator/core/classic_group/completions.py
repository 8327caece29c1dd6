"""What a classic handler asks to be told about once its records are durable or have failed.

`data` of a `Completion` whose owner is OWNER; `appended.py` takes it up again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.types import RequestToken
from groupd.protocol.messages.classic_group import JoinProtocol

OWNER = "classic-group"


class GroupCreated(Struct, frozen=True):
    """`previous`: the empty consumer group that the new one replaced."""

    group: ClassicGroup
    previous: Group | None


class LeaderSynced(Struct, frozen=True):
    """`assignments` by member id; a member without an entry gets b""."""

    group: ClassicGroup
    generation: int
    assignments: Mapping[str, bytes]


class StaticReplaced(Struct, frozen=True):
    """What the answer, or the undoing, of a replacement in Stable needs. `token`: its Join;
    the fields below `api_version` are the slot's before."""

    group: ClassicGroup
    member: ClassicGroupMember
    token: RequestToken
    api_version: int
    old_id: str
    leader_before: str | None
    protocols: tuple[JoinProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int
