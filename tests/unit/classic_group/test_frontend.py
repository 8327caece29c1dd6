"""The order of the checks before the shard, and replies to their errors."""

from __future__ import annotations

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.frontend import groups as front
from groupd.coordinator.core.types import RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupReply,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from tests.support.access import ByRule, allow_all

CONFIG = CoordinatorConfig()
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def deny(*_: object) -> bool:
    return False


def join_request(group: str = "g", session: int = 10_000) -> JoinGroupRequest:
    return JoinGroupRequest(group, session, 30_000, "m", "consumer", ())


def sync_request(group: str = "g", name: str | None = "range") -> SyncGroupRequest:
    return SyncGroupRequest(group, 1, "m", None, "consumer", name)


def requests(group: str) -> list[tuple]:
    return [
        (front.check_join, join_request(group)),
        (front.check_sync, sync_request(group)),
        (front.check_member, HeartbeatRequest(group, 1, "m")),
        (front.check_member, LeaveGroupRequest(group, (LeavingMember("m"),))),
    ]


def code_of(check, request, *, version: int = 5, allows=allow_all, started=True) -> ErrorCode:
    context = RequestContext(1, version, access=ByRule(allows))
    try:
        check(CONFIG, context, request, started)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize("index", range(4), ids=["join", "sync", "heartbeat", "leave"])
def test_the_order_of_the_checks(index):
    check, empty = requests("")[index]
    _, named = requests("g")[index]
    assert code_of(check, empty, allows=deny, started=False) is DENIED
    assert code_of(check, empty, started=False) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(check, empty) is ErrorCode.INVALID_GROUP_ID
    assert code_of(check, named) is ErrorCode.NONE


def test_v5_must_name_the_protocol_before_anything_else():
    request = sync_request("", name=None)
    refused = code_of(front.check_sync, request, version=5, allows=deny)
    assert refused is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(front.check_sync, sync_request(name=None), version=4) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("code", "echoed"),
    [
        (DENIED, ""),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "m"),
        (ErrorCode.INVALID_GROUP_ID, "m"),
        (ErrorCode.INVALID_SESSION_TIMEOUT, "m"),
    ],
)
def test_a_check_that_refuses_a_join_echoes_the_member_id_unless_it_was_denied(code, echoed):
    assert answers.join_refusal(join_request(), ApiError(code)) == JoinGroupReply(
        code, member_id=echoed
    )


@pytest.mark.parametrize(
    "code",
    [LOADING, NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_MEMBER_ID],
)
def test_any_other_failed_join_has_no_member_id(code):
    assert answers.join_failure(join_request(), ApiError(code)) == JoinGroupReply(code)
