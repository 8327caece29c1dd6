"""What a classic handler asks to be told about once its records are durable or have failed.

`data` of a `Completion` whose owner is OWNER; `appended.py` takes it up again.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.types import RequestToken
from groupd.protocol.frozen import dataclass
from groupd.protocol.messages.classic_group import JoinProtocol

OWNER = "classic-group"


@dataclass(frozen=True, slots=True)
class GroupCreated:
    """`previous`: the empty consumer group that the new one replaced."""

    group: ClassicGroup
    previous: Group | None


@dataclass(frozen=True, slots=True)
class LeaderSynced:
    """`assignments` by member id; a member without an entry gets b""."""

    group: ClassicGroup
    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class StaticReplaced:
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
