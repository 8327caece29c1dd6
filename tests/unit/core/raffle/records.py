"""The layout of its records; that of a real type stands in `groupd/protocol/records`."""

from __future__ import annotations

from groupd.protocol.reader import Reader
from groupd.protocol.records.codec import make_record_type
from groupd.protocol.writer import Writer
from tests.unit.core.raffle.group import RaffleKey, RaffleValue, TicketKey, TicketValue


def read_raffle(reader: Reader) -> RaffleValue:
    return RaffleValue(reader.int32(), reader.boolean())


def write_raffle(writer: Writer, value: RaffleValue) -> None:
    writer.int32(value.epoch)
    writer.boolean(value.closing)


def read_ticket(reader: Reader) -> TicketValue:
    return TicketValue(reader.string(), reader.int32(), reader.boolean())


def write_ticket(writer: Writer, value: TicketValue) -> None:
    writer.string(value.client_id)
    writer.int32(value.number)
    writer.boolean(value.claimed)


RECORDS = (
    make_record_type(120, RaffleKey, ("group",), read_raffle, write_raffle),
    make_record_type(121, TicketKey, ("group", "member_id"), read_ticket, write_ticket),
)
