"""The `Store` over SQL, for every dialect: the catalogue, and the store of logs and catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

from msgspec.json import decode, encode
from msgspec.structs import replace
from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select

from groupd.storage.checksums import check_row, row_crc
from groupd.storage.log import (
    ConfigEntry,
    FirstEpochs,
    LogError,
    MadePartitions,
    SecurityEntry,
    StoredTopic,
    StoreRefused,
)
from groupd.storage.producer_ids import check_producer_ids, take_producer_ids
from groupd.storage.sql_logs import Backend, SqlLogs
from groupd.storage.tables import (
    config_override,
    log,
    log_batch,
    meta,
    security_entry,
    topic,
)

_KEYS_MAX = 500
"""How many keys one query asks for at most."""

_CONFIGS = select(
    config_override.c.row_crc,
    config_override.c.resource_type,
    config_override.c.name,
    config_override.c.key,
    config_override.c.value,
).order_by(config_override.c.resource_type, config_override.c.name, config_override.c.key)

T = TypeVar("T")


class SqlCatalogue:
    """See `storage.log.Catalogue`.

    Its transactions are short, so they run on the connection for writing: then a daemon whose logs
    are empty opens no other connection before it is ready. Two kinds of reads do not wait for
    writes: the sizes of logs, because they look at every row, and all reads in a cluster, because a
    node may read while it may not write.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def cluster_id(self) -> str:
        def work(connection: Connection) -> str:
            query = select(meta.c.cluster_id, meta.c.row_crc)
            cluster_id, crc = connection.execute(query).one()
            check_row("meta", crc, cluster_id)
            return str(cluster_id)

        return await self._backend.look(work)

    async def topics(self) -> list[StoredTopic]:
        """Returns all topics, sorted by name."""

        query = select(topic).order_by(topic.c.name, topic.c.topic_id)
        return await self._backend.look(lambda connection: _topics(connection, query))

    async def topics_by_id(self, topic_ids: Sequence[bytes]) -> list[StoredTopic]:
        def work(connection: Connection) -> list[StoredTopic]:
            found: list[StoredTopic] = []
            for some in _parts(topic_ids):
                found += _topics(connection, select(topic).where(topic.c.topic_id.in_(some)))
            return sorted(found, key=lambda one: (one.name, one.topic_id))

        return await self._backend.look(work)

    async def put_topic(
        self, topic: StoredTopic, made: MadePartitions | None = None
    ) -> StoredTopic:
        def work(connection: Connection) -> StoredTopic:
            epochs = () if made is None else self._backend.next_epochs(connection, made.units)
            stored = topic
            if made is not None and epochs:
                stored = replace(topic, first_epochs=(*topic.first_epochs, (made.first, epochs)))
            _put_topic(connection, stored)
            return stored

        return await self._backend.change(work, [_topic_entry(topic.topic_id)])

    async def delete_topic(self, topic_id: bytes) -> None:
        statement = delete(topic).where(topic.c.topic_id == topic_id)
        await self._backend.change(
            lambda connection: connection.execute(statement), [_topic_entry(topic_id)]
        )

    async def configs(self) -> list[tuple[int, str, str, str]]:
        """Returns the overrides ordered by resource type, name and key."""
        return await self._backend.look(lambda connection: _configs(connection, _CONFIGS))

    async def configs_of(
        self, resource_type: int, names: Sequence[str]
    ) -> list[tuple[int, str, str, str]]:
        columns = config_override.c
        query = _CONFIGS.where(columns.resource_type == resource_type)

        def work(connection: Connection) -> list[tuple[int, str, str, str]]:
            found: list[tuple[int, str, str, str]] = []
            for some in _parts(names):
                found += _configs(connection, query.where(columns.name.in_(some)))
            return sorted(found)

        return await self._backend.look(work)

    async def put_configs(self, changes: Sequence[ConfigEntry]) -> None:
        if not changes:
            return
        columns = config_override.c
        gone = (
            delete(config_override)
            .where(columns.resource_type == bindparam("of_type"))
            .where(columns.name == bindparam("of_name"))
            .where(columns.key == bindparam("of_key"))
        )
        # If an override is changed several times, the last change counts.
        rows = {(one.resource_type, one.name, one.key): one for one in changes}
        places = [{"of_type": kind, "of_name": name, "of_key": key} for kind, name, key in rows]
        new = [
            {
                "resource_type": one.resource_type,
                "name": one.name,
                "key": one.key,
                "value": one.value,
                "row_crc": row_crc(one.resource_type, one.name, one.key, one.value),
            }
            for one in rows.values()
            if one.value is not None
        ]

        def work(connection: Connection) -> None:
            connection.execute(gone, places)
            if new:
                connection.execute(insert(config_override), new)

        await self._backend.change(work, [("config", encode(place).decode()) for place in rows])

    async def security_entries(self, kind: str) -> list[tuple[str, str]]:
        query = _security_of(kind)
        return await self._backend.look(
            lambda connection: sorted(_security(connection, kind, query))
        )

    async def security_entries_of(self, kind: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        query, column = _security_of(kind), security_entry.c.key_hash

        def work(connection: Connection) -> list[tuple[str, str]]:
            found: list[tuple[str, str]] = []
            for some in _parts(keys):
                hashes = [_hash(key) for key in some]
                found += _security(connection, kind, query.where(column.in_(hashes)))
            return sorted(found)

        return await self._backend.look(work)

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        if not changes:
            return
        columns = security_entry.c
        gone = delete(security_entry).where(
            columns.kind == bindparam("of_kind"), columns.key_hash == bindparam("of_key")
        )

        def work(connection: Connection) -> None:
            # Hashing many keys takes long, so it is done on the thread of the transaction. If an
            # entry is changed several times, the last change counts.
            rows = {(change.kind, _hash(change.key)): change for change in changes}
            places = [{"of_kind": kind, "of_key": key} for kind, key in rows]
            new = [
                {
                    "kind": kind,
                    "key_hash": key_hash,
                    "entry_key": change.key,
                    "value": change.value,
                    "row_crc": row_crc(kind, change.key, change.value),
                }
                for (kind, key_hash), change in rows.items()
                if change.value is not None
            ]
            connection.execute(gone, places)
            if new:
                connection.execute(insert(security_entry), new)

        entries = [("security", encode([change.kind, change.key]).decode()) for change in changes]
        await self._backend.change(work, entries)

    async def log_sizes(self) -> dict[str, int]:
        query = (
            select(log.c.name, func.sum(func.length(log_batch.c.payload)))
            .join_from(log, log_batch, log_batch.c.log_id == log.c.log_id)
            .where(log_batch.c.last_offset >= log.c.start_offset)
            .group_by(log.c.name)
        )

        def work(connection: Connection) -> dict[str, int]:
            return {name: int(size) for name, size in connection.execute(query)}

        return await self._backend.read(work)

    async def next_producer_ids(self, count: int) -> int:
        if count < 1:
            raise ValueError(f"{count} producer ids")

        return await self._backend.write(partial(take_producer_ids, count=count))


def _topics(connection: Connection, query: Select[Any]) -> list[StoredTopic]:
    """Returns the topics that `query` finds. Raises LogCorrupt."""
    rows = connection.execute(query).all()
    for row in rows:
        covered = (row.topic_id, row.name, row.partitions, row.configs)
        check_row("topic", row.row_crc, *covered, *_if_any(row.first_epochs))
    return [
        StoredTopic(
            row.topic_id,
            row.name,
            row.partitions,
            tuple(sorted(decode(row.configs).items())),
            _first_epochs(row.first_epochs),
        )
        for row in rows
    ]


def _first_epochs(text: str) -> FirstEpochs:
    return tuple((first, tuple(epochs)) for first, epochs in decode(text or "[]"))


def _if_any(text: str) -> tuple[str, ...]:
    """Leaves an empty text out of the checksum: older rows were checked without this column."""
    return (text,) if text else ()


def _parts(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yields the keys in parts, each for one query."""
    for start in range(0, len(keys), _KEYS_MAX):
        yield keys[start : start + _KEYS_MAX]


def _configs(connection: Connection, query: Select[Any]) -> list[tuple[int, str, str, str]]:
    """Returns the found overrides: (resource type, name, key, value). Raises LogCorrupt."""
    rows = connection.execute(query).all()
    for row in rows:
        check_row("config_override", *row)
    return [(row[1], row[2], row[3], row[4]) for row in rows]


def _security_of(kind: str) -> Select[Any]:
    columns = security_entry.c
    return select(columns.row_crc, columns.entry_key, columns.value).where(columns.kind == kind)


def _security(connection: Connection, kind: str, query: Select[Any]) -> list[tuple[str, str]]:
    """Returns (key, value) of each entry, in no order. Raises LogCorrupt."""
    rows = connection.execute(query).all()
    for crc, key, value in rows:
        check_row("security_entry", crc, kind, key, value)
    return [(key, value) for _, key, value in rows]


def _topic_entry(topic_id: bytes) -> tuple[str, str]:
    """The topic as an entry of the `storage.cluster.CatalogueJournal`."""
    return "topic", topic_id.hex()


def _put_topic(connection: Connection, stored: StoredTopic) -> None:
    connection.execute(delete(topic).where(topic.c.topic_id == stored.topic_id))
    configs = encode(dict(stored.configs), order="sorted").decode()
    epochs = encode(stored.first_epochs).decode() if stored.first_epochs else ""
    covered = (stored.topic_id, stored.name, stored.partitions, configs)
    connection.execute(
        insert(topic),
        {
            "topic_id": stored.topic_id,
            "name": stored.name,
            "partitions": stored.partitions,
            "configs": configs,
            "first_epochs": epochs,
            "row_crc": row_crc(*covered, *_if_any(epochs)),
        },
    )


class SqlStore(SqlLogs, SqlCatalogue):
    """See `storage.log.Store`."""

    def __init__(self, backend: Backend) -> None:
        SqlLogs.__init__(self, backend)
        SqlCatalogue.__init__(self, backend)

    async def start(self) -> None:
        await self._backend.start()
        try:
            await self._check_logs()
            # The rows of the other tables are read at each start anyway.
            await self._backend.write(check_producer_ids)
            await self._drop_deleted()
        except LogError as error:
            await self._backend.close()
            raise StoreRefused(f"{error}: restore the database or choose another") from error

    async def lost(self) -> str:
        return await self._backend.lost()

    async def close(self) -> None:
        await self._opening.settled()
        await self._backend.close()


def _hash(key: str) -> bytes:
    return sha256(key.encode()).digest()
