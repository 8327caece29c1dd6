"""A slot: which reply may be stored for the request when it comes again."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.types import Access
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.waiting import WaitingRequests
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.slot import RightsReplyValidity, Slot
from groupd.coordinator.server.stored_replies import StoredReplies
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatReply
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from tests.bench.frames import consumer_heartbeat
from tests.unit.server.harness import AlwaysValid

FRAME = consumer_heartbeat("g", "m", 3)[4:]


class Client:
    closed = False
    host = "/127.0.0.1"
    software = ("", "")
    long_work = LongWork()

    def __init__(self) -> None:
        self.stored_replies = StoredReplies(ConnectionStats())
        self.sent: list[bytes] = []

    def slot_done(self, slot: Slot) -> None:
        self.sent.append(bytes(slot.frame))

    def block(self) -> None: ...

    def abort(self) -> None: ...


def heartbeat(client: Client) -> Slot:
    """A heartbeat that found nothing to do: its reply may be repeated."""
    header = parse_request_header(FRAME, API_BY_KEY)
    api = API_BY_KEY[header.api_key]
    request: Any = api.decode(FRAME, header.body_offset, header.api_version)
    slot = Slot(client, api, header, FRAME, request)
    WaitingRequests().add(slot)
    slot.may_repeat(AlwaysValid())
    return slot


def test_the_reply_that_was_meant_is_stored() -> None:
    client = Client()
    heartbeat(client).answer(ConsumerGroupHeartbeatReply(member_id="m", member_epoch=3))
    assert (len(client.sent), len(client.stored_replies)) == (1, 1)


def test_a_refusal_in_its_place_is_not() -> None:
    """The reply waits for the log, and the log takes too long."""
    client = Client()
    heartbeat(client).fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (len(client.sent), len(client.stored_replies)) == (1, 0)


def test_a_stored_reply_is_valid_only_under_the_same_rights() -> None:
    """docs/spec/security.md#SE-58: also when the ACLs change while the reply is being encoded, so
    that it is stored after the change."""

    class Changing(Access):
        version = 7

    class Always:
        renewed = 0

        def renew(self) -> bool:
            self.renewed += 1
            return True

    access, inner = Changing(), Always()
    validity = RightsReplyValidity(inner, access, access.version)
    assert validity.renew()
    access.version = 8
    stored_late = RightsReplyValidity(inner, access, 7)
    assert not validity.renew()
    assert not stored_late.renew()
    assert inner.renewed == 1
