"""What the ledger takes for a violation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)
from tests.simulator.ledger import Ledger
from tests.simulator.network import Call
from tests.simulator.world import Violation

FENCED = ConsumerGroupHeartbeatReply(error=ErrorCode.FENCED_MEMBER_EPOCH)


def asked(member: ConsumerGroupMember) -> tuple[Ledger, Call]:
    """A heartbeat of `member` that has come in with its epoch and is not answered yet."""
    group = ConsumerGroup("g")
    group.members[member.member_id] = member
    runtime = SimpleNamespace(state=CoordinatorState.ACTIVE)
    process = SimpleNamespace(shard_of=lambda group_id: runtime, group={"g": group}.get)
    connection = SimpleNamespace(process=process)
    request = ConsumerGroupHeartbeatRequest("g", member.member_id, member.member_epoch)
    call = Call("c", 1, request, 1, cast(Any, connection), lambda reply: None)
    ledger = Ledger(cast(Any, None))
    ledger.before(call)
    return ledger, call


def test_a_member_with_a_good_epoch_must_not_be_fenced() -> None:
    ledger, call = asked(ConsumerGroupMember("m", member_epoch=6))
    with pytest.raises(Violation, match="fenced without need"):
        ledger.released(call, FENCED)


def test_a_heartbeat_that_waited_while_its_member_moved_on_may_be_fenced() -> None:
    """Its client has given it up and has sent others since (seed 30470 of mixed groups)."""
    member = ConsumerGroupMember("m", member_epoch=6)
    ledger, call = asked(member)
    member.member_epoch, member.previous_member_epoch = 9, 7
    ledger.released(call, FENCED)
