"""The append for PostgreSQL: one statement, whatever the number of logs and batches.

Columns travel as arrays, so the statement is prepared once; a statement a row would be a trip to
the server a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, LargeBinary, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from groupd.storage.batches import Advance, Rows
from groupd.storage.checksums import end_moved
from groupd.storage.log import LogFenced

_COLUMNS = (
    "log_id",
    "base_offset",
    "last_offset",
    "max_timestamp_ms",
    "row_crc",
    "payload",
)
_APPEND = text(
    """
    WITH advanced AS (
        UPDATE log SET next_offset = mine.new_end, row_sum = log.row_sum + mine.difference
        FROM unnest(:of_log, :owner, :expected, :new_end, :difference)
            AS mine (log_id, owner_epoch, expected, new_end, difference)
        WHERE log.log_id = mine.log_id
            AND log.owner_epoch = mine.owner_epoch
            AND log.next_offset = mine.expected
            AND log.name IS NOT NULL
        RETURNING log.log_id
    )
    INSERT INTO log_batch (log_id, base_offset, last_offset, max_timestamp_ms, row_crc, payload)
    SELECT * FROM unnest(
        :log_id, :base_offset, :last_offset, :max_timestamp_ms, :row_crc, :payload
    )
    WHERE (SELECT count(*) FROM advanced) = cardinality(:of_log)
    """
).bindparams(
    *(
        bindparam(name, type_=ARRAY(BigInteger))
        for name in ("of_log", "owner", "expected", "new_end", "difference", *_COLUMNS[:-1])
    ),
    bindparam("payload", type_=ARRAY(LargeBinary)),
)


def append_rows(connection: Connection, advances: Sequence[Advance], rows: Rows) -> None:
    """In a transaction. Raises LogFenced (of no log in particular) when one is not where its
    writer believes: the caller rolls back whatever was done."""
    inserted = connection.execute(
        _APPEND,
        {
            "of_log": [advance.log_id for advance in advances],
            "owner": [advance.owner_epoch for advance in advances],
            "expected": [advance.base_offset for advance in advances],
            "new_end": [advance.next_offset for advance in advances],
            "difference": [
                end_moved(advance.log_id, advance.base_offset, advance.next_offset)
                for advance in advances
            ],
            **{name: [row[name] for row in rows] for name in _COLUMNS},
        },
    ).rowcount
    if inserted != len(rows):
        raise LogFenced([])
