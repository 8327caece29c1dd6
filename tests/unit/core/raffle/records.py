"""The layout of its records; of a real type that stands in `protocol/records`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from groupd.protocol.records import codec
from groupd.protocol.records.primitives import INT32, Reader, string
from tests.unit.core.raffle.group import RaffleKey, RaffleValue, TicketKey, TicketValue


@contextmanager
def known() -> Iterator[None]:
    with (
        patch.dict(codec.GROUP_KEYS, {120: RaffleKey}),
        patch.dict(codec.PAIR_KEYS, {121: TicketKey}),
        patch.dict(
            codec._KEY_ENCODERS,
            {
                RaffleKey: codec._group_key_encoder(120),
                TicketKey: codec._member_key_encoder(121),
            },
        ),
        patch.dict(
            codec._VALUE_ENCODERS,
            {
                RaffleValue: lambda value: b"\0\0" + INT32.pack(value.epoch),
                TicketValue: lambda value: (
                    b"\0\0" + string(value.client_id) + INT32.pack(value.number)
                ),
            },
        ),
        patch.dict(
            codec._VALUE_DECODERS,
            {
                RaffleKey: (range(1), lambda reader, _: RaffleValue(reader.int32())),
                TicketKey: (range(1), _ticket),
            },
        ),
    ):
        yield


def _ticket(reader: Reader, version: int) -> TicketValue:
    return TicketValue(reader.string(), reader.int32())
