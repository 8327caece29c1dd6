"""What RenewDelegationToken (39) and ExpireDelegationToken (40) share: an HMAC and a time go in, a
time comes out. v2 is flexible."""

from __future__ import annotations

from groupd.protocol.messages.delegation_tokens import (
    NO_TIME_MS,
    DelegationTokenExpiryReply,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import Api, api, code_only
from groupd.protocol.writer import Writer

_Request = RenewDelegationTokenRequest | ExpireDelegationTokenRequest


def expiry_api(key: int, request_type: type[_Request]) -> Api:
    """The API of one of them."""

    def read(reader: Reader) -> _Request:
        return request_type(reader.secret(), reader.int64())

    failure = code_only(DelegationTokenExpiryReply)
    return api(key, request_type, "1-2", "2+", read, _write, failure, secrets=True)


def _write(writer: Writer, reply: DelegationTokenExpiryReply) -> None:
    writer.int16(reply.error)
    writer.int64(NO_TIME_MS)
    writer.throttle_time()
