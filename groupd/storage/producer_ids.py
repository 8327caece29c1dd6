"""The counter of producer ids, which are given out in blocks."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from groupd.storage.checksums import check_row, row_crc
from groupd.storage.tables import producer_id

_NEXT = select(producer_id.c.next_id, producer_id.c.row_crc)


def check_producer_ids(connection: Connection) -> None:
    """Raises LogCorrupt if the counter's row is damaged."""
    next_id, crc = connection.execute(_NEXT).one()
    check_row("producer_id", crc, next_id)


def take_producer_ids(connection: Connection, count: int) -> int:
    """Reserves `count` producer ids for good and returns the first. Raises LogCorrupt."""
    first, crc = connection.execute(_NEXT.with_for_update()).one()
    check_row("producer_id", crc, first)
    following = first + count
    connection.execute(update(producer_id).values(next_id=following, row_crc=row_crc(following)))
    return int(first)
