"""Delegation tokens, of which there are none (SE-82)."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.types import ANONYMOUS, Operation, RequestContext, Resource
from groupd.coordinator.security.delegation_tokens import delegation_token_handlers
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.delegation_tokens import (
    CreateDelegationTokenReply,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from groupd.protocol.messages.secret import Secret
from tests.support.access import ByRule

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
DENIED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
NO_USER = ErrorCode.INVALID_PRINCIPAL_TYPE
HANDLERS = delegation_token_handlers(lambda: asyncio.sleep(0))


def context_of(principal: str, may_create: bool = True) -> RequestContext:
    def rule(operation: Operation, resource: Resource, name: str) -> bool:
        assert (operation, resource, name) == (
            Operation.CREATE_TOKENS,
            Resource.USER,
            "User:bob",
        )
        return may_create

    access = ByRule(rule)
    access.principal = principal
    return RequestContext(0, 0, access=access)


@pytest.mark.parametrize(
    ("principal", "may_create", "owner", "renewers", "code"),
    [
        (ANONYMOUS, True, None, (), NOT_ALLOWED),
        (ANONYMOUS, False, "bob", (("Group", "g"),), NOT_ALLOWED),
        ("User:alice", True, None, (), DISABLED),
        ("User:alice", True, "", (("User", "x"),), DISABLED),
        ("User:alice", False, "alice", (), DISABLED),
        ("User:alice", True, "bob", (), DISABLED),
        ("User:alice", False, "bob", (("Group", "g"),), DENIED),
        ("User:alice", True, "bob", (("User", "x"), ("Group", "g")), NO_USER),
    ],
)
async def test_create(
    principal: str,
    may_create: bool,
    owner: str | None,
    renewers: tuple[tuple[str, str], ...],
    code: ErrorCode,
) -> None:
    """The checks come in Kafka's order. The reply says who asked, and for whom."""
    request = CreateDelegationTokenRequest(renewers, owner_type="User", owner_name=owner)
    asker = ("User", principal.removeprefix("User:"))
    reply = await HANDLERS[CreateDelegationTokenRequest](context_of(principal, may_create), request)
    assert reply == CreateDelegationTokenReply(code, ("User", owner) if owner else asker, asker)


@pytest.mark.parametrize(
    "request_",
    [
        RenewDelegationTokenRequest(Secret(b"h"), 1),
        ExpireDelegationTokenRequest(Secret(b"h"), 1),
        DescribeDelegationTokenRequest(None),
        DescribeDelegationTokenRequest((("User", "bob"),)),
    ],
)
@pytest.mark.parametrize(("principal", "code"), [(ANONYMOUS, NOT_ALLOWED), ("User:a", DISABLED)])
async def test_the_others(request_: object, principal: str, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        await HANDLERS[type(request_)](context_of(principal), request_)
    assert refused.value.code == code
