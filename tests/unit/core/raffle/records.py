"""The layout of its records; that of a real type stands in `groupd/protocol/records`."""

from __future__ import annotations

from groupd.protocol.records.codec import make_record_type
from groupd.protocol.records.versioned import VersionedValue
from groupd.protocol.schema import struct
from tests.unit.core.raffle.group import RaffleKey, RaffleValue, TicketKey, TicketValue

_RAFFLE = VersionedValue(struct(RaffleValue, "epoch:int32 closing:bool"))
_TICKET = VersionedValue(struct(TicketValue, "client_id:string number:int32 claimed:bool"))

RECORDS = (
    make_record_type(120, RaffleKey, ("group",), _RAFFLE),
    make_record_type(121, TicketKey, ("group", "member_id"), _TICKET),
)
