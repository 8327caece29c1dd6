"""`Catalogue` over SQL, for every dialect."""

from __future__ import annotations

import json

from sqlalchemy import Connection, delete, insert, select, update

from storage.log import StoredTopic
from storage.sql_logs import Backend
from storage.tables import config_override, meta, producer_id, topic


class SqlCatalogue:
    """See `storage.log.Catalogue`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def cluster_id(self) -> str:
        return await self._backend.read(
            lambda connection: str(connection.scalar(select(meta.c.cluster_id)))
        )

    async def topics(self) -> list[StoredTopic]:
        """By name."""

        def work(connection: Connection) -> list[StoredTopic]:
            rows = connection.execute(select(topic).order_by(topic.c.name, topic.c.topic_id))
            return [
                StoredTopic(
                    row.topic_id,
                    row.name,
                    row.partitions,
                    tuple(sorted(json.loads(row.configs).items())),
                )
                for row in rows
            ]

        return await self._backend.read(work)

    async def put_topic(self, topic: StoredTopic) -> None:
        stored = topic

        def work(connection: Connection) -> None:
            _put_topic(connection, stored)

        await self._backend.write(work)

    async def delete_topic(self, topic_id: bytes) -> None:
        statement = delete(topic).where(topic.c.topic_id == topic_id)
        await self._backend.write(lambda connection: connection.execute(statement))

    async def configs(self) -> list[tuple[int, str, str, str]]:
        """Ordered by resource type, name and key."""
        columns = config_override.c
        query = select(columns.resource_type, columns.name, columns.key, columns.value).order_by(
            columns.resource_type, columns.name, columns.key
        )
        return await self._backend.read(
            lambda connection: [tuple(row) for row in connection.execute(query)]
        )

    async def put_config(self, resource_type: int, name: str, key: str, value: str | None) -> None:
        columns = config_override.c
        gone = (
            delete(config_override)
            .where(columns.resource_type == resource_type)
            .where(columns.name == name)
            .where(columns.key == key)
        )

        def work(connection: Connection) -> None:
            connection.execute(gone)
            if value is not None:
                row = {"resource_type": resource_type, "name": name, "key": key, "value": value}
                connection.execute(insert(config_override), row)

        await self._backend.write(work)

    async def next_producer_ids(self, count: int) -> int:
        if count < 1:
            raise ValueError(f"{count} producer ids")

        def work(connection: Connection) -> int:
            # The update comes first: it locks the row until the commit.
            next_id = producer_id.c.next_id
            connection.execute(update(producer_id).values(next_id=next_id + count))
            return int(connection.execute(select(next_id)).scalar_one()) - count

        return await self._backend.write(work)


def _put_topic(connection: Connection, stored: StoredTopic) -> None:
    connection.execute(delete(topic).where(topic.c.topic_id == stored.topic_id))
    connection.execute(
        insert(topic),
        {
            "topic_id": stored.topic_id,
            "name": stored.name,
            "partitions": stored.partitions,
            "configs": json.dumps(dict(stored.configs), sort_keys=True),
        },
    )
