"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40) and
DescribeDelegationToken (41).

There are no delegation tokens here. These handlers answer like a Kafka broker without a key for
tokens, so an Admin client reports an error that it knows (`docs/spec/security.md#6`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from groupd.coordinator.core.slices import Pace, Turn
from groupd.coordinator.core.types import (
    ANONYMOUS,
    DataHandler,
    Operation,
    RequestContext,
    Resource,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.delegation_tokens import (
    CreateDelegationTokenReply,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

_USER = "User"


def delegation_token_handlers(turn: Turn) -> Mapping[type, DataHandler]:
    """The handlers by type of request. `turn()` waits for the next turn of long work."""
    return {
        CreateDelegationTokenRequest: partial(create_token, turn),
        RenewDelegationTokenRequest: _refuse,
        ExpireDelegationTokenRequest: _refuse,
        DescribeDelegationTokenRequest: _refuse,
    }


async def create_token(
    turn: Turn, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenReply:
    """The refusal. It names the client that asked and the owner of the wanted token."""
    requester = _principal(context.principal)
    owner = requester
    if request.owner_name:
        owner = (request.owner_type or "", request.owner_name)
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if context.principal == ANONYMOUS:
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not context.allows(
        Operation.CREATE_TOKENS, Resource.USER, ":".join(owner)
    ):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif await _names_others(turn, request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    return CreateDelegationTokenReply(code, owner, requester)


async def _names_others(turn: Turn, renewers: Sequence[tuple[str, str]]) -> bool:
    """Whether one of the principals is not of the type User."""
    pace = Pace()
    for kind, _ in renewers:
        if pace.due():
            await turn()
        if kind != _USER:
            return True
    return False


async def _refuse(context: RequestContext, request: object) -> None:
    """Raises ApiError: there are no tokens."""
    if context.principal == ANONYMOUS:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)


def _principal(text: str) -> tuple[str, str]:
    kind, _, name = text.partition(":")
    return kind, name
