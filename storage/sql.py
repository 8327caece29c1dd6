"""The `Store` over SQL: logs and catalogue on one backend."""

from __future__ import annotations

from groupd.storage.log import LogError, StoreRefused
from groupd.storage.sql_catalogue import SqlCatalogue
from groupd.storage.sql_logs import Backend, SqlLogs


class SqlStore(SqlLogs, SqlCatalogue):
    """See `storage.log.Store`."""

    def __init__(self, backend: Backend) -> None:
        SqlLogs.__init__(self, backend)
        SqlCatalogue.__init__(self, backend)

    async def start(self) -> None:
        await self._backend.start()
        try:
            await self._check_logs()
            await self._check_producer_ids()
            await self._drop_deleted()
        except LogError as error:
            await self._backend.close()
            raise StoreRefused(f"{error}: restore the database or choose another") from error

    async def lost(self) -> str:
        return await self._backend.lost()

    async def close(self) -> None:
        await self._backend.close()
