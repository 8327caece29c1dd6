"""ListTransactions (66), v0-2, flexible (KIP-664). v1 adds the filter by duration (KIP-994), v2
the one by a pattern of the transactional id (KIP-1152)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.transactions import (
    ListedTransaction,
    ListTransactionsReply,
    ListTransactionsRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        states=reader.array(Reader.string),
        producer_ids=reader.array(Reader.int64),
        duration_ms=reader.int64() if reader.version >= 1 else -1,
        pattern=reader.nullable_string() if reader.version >= 2 else None,
    )


def write(writer: Writer, reply: ListTransactionsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    writer.int16(reply.error)
    yield from writer.array_in_steps(reply.unknown_states, Writer.string)
    yield from writer.structs_in_steps(reply.transactions, _write_transaction)


def _write_transaction(writer: Writer, transaction: ListedTransaction) -> None:
    writer.string(transaction.transactional_id)
    writer.int64(transaction.producer_id)
    writer.string(transaction.state)


API = api(66, ListTransactionsRequest, "0-2", "0+", read, write, code_only(ListTransactionsReply))
