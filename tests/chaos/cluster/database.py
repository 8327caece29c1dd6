"""The database of a cluster under chaos: a primary, a synchronous standby, and for each node a link
to each of the two."""

from __future__ import annotations

from random import Random
from typing import Any
from urllib.parse import quote

from tests.chaos.cluster.links import Link, Links
from tests.support.postgres import PASSWORD, USER, PostgresServer

RETRY = "ALTER SYSTEM SET wal_retrieve_retry_interval = '200ms'"
"""A standby asks for a primary that restarts this often; the default of 5 s is for people."""

TELL = (
    "ALTER SYSTEM SET log_min_duration_statement = '500ms'",
    "ALTER SYSTEM SET log_lock_waits = on",
    "ALTER SYSTEM SET deadlock_timeout = '300ms'",
)
"""The server's log tells what was slow, and who waited for whom."""

SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid() ORDER BY pid"
)


class Database:
    """`start` makes both servers and an empty database. `links` by node, from 0 on: to the server
    in the first place and to that in the second."""

    def __init__(self, nodes: int) -> None:
        self.links: list[tuple[Link, Link]] = []
        self.name = ""
        self._nodes = nodes
        self._proxies = Links()
        self._servers: list[PostgresServer] = []
        self._first = 0
        """The place of the primary."""

    @property
    def primary(self) -> PostgresServer:
        return self._servers[self._first]

    def start(self) -> None:
        primary = PostgresServer()
        self._servers.append(primary)
        primary.start()
        primary.execute("postgres", RETRY, *TELL, "SELECT pg_reload_conf()")
        self.name = primary.new_database()
        self._servers.append(PostgresServer(primary))
        self._servers[1].start()
        primary.wait_for_standbys()
        self.links = [
            (self._proxies.add(primary.port), self._proxies.add(self._servers[1].port))
            for _ in range(self._nodes)
        ]

    def url(self, node: int) -> str:
        """The address for a node, as `--store` takes it."""
        who = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
        hosts = "".join(f"&host=127.0.0.1:{link.port}" for link in self.links[node])
        return f"postgresql+asyncpg://{who}@/{self.name}?target_session_attrs=read-write{hosts}"

    def execute(self, *statements: str) -> list[Any]:
        """Rows of the last statement, past all links."""
        return self.primary.execute(self.name, *statements)

    def stop(self, *, killed: bool) -> None:
        """The primary ends, in order or like in a crash."""
        for links in self.links:
            links[self._first].cut("refused")
        if killed:
            self.primary.kill()
        else:
            self.primary.stop()

    def go_on(self) -> None:
        """The primary runs again."""
        self.primary.start()
        for links in self.links:
            links[self._first].mend()

    def promote(self) -> None:
        """The primary is gone for good, and the standby takes its place."""
        self.stop(killed=True)
        self._first = 1 - self._first
        self.primary.promote()

    def add_standby(self) -> None:
        """A new standby, in the place of the server that is gone."""
        place = 1 - self._first
        self._servers[place].close()
        self._servers[place] = standby = PostgresServer(self.primary)
        standby.start()
        self.primary.wait_for_standbys()
        for links in self.links:
            links[place].mend(standby.port)

    def end_sessions(self, random: Random) -> int:
        """Some sessions end, as an administrator would end them; how many."""
        query = SESSIONS.replace("$1", f"'{self.name}'")
        pids = [row["pid"] for row in self.execute(query)]
        chosen = [pid for pid in pids if random.random() < 0.5]
        for pid in chosen:
            self.execute(f"SELECT pg_terminate_backend({pid})")
        return len(chosen)

    def logs(self) -> str:
        return "\n".join(f"--- PostgreSQL\n{server.logs()}" for server in self._servers)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self._proxies.close()
