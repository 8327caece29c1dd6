"""A private PostgreSQL server: its own directory, a free port of 127.0.0.1, passwords, fsync on.

The server refuses to run as root, so root starts it as another user. Its default is not to wait
for the disk at a commit: the store must see to that itself.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg

from tests.support.ports import free_ports
from tests.support.process import wait_until

USER = "groupd"
PASSWORD = "p@ss/w:rd?#%&"
"""Has every character that must be percent-encoded in a URL."""
START_TIMEOUT_S = 30.0
START_ATTEMPTS = 3
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "fsync": "on",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "log_line_prefix": "%m [%p] %d ",
}


def postgres_bin() -> Path:
    """The directory of `initdb` and `postgres`, the newest there is."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(installed, key=lambda path: -int(path.parent.name.partition(".")[0]))
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise AssertionError(
        "PostgreSQL is missing: run `make test-setup` (Debian: apt-get install postgresql)"
    )


def _unprivileged() -> dict[str, Any]:
    """The arguments of Popen that say who runs the server."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class PostgresServer:
    """It can `start`, `stop` (waits for nobody's session) and `kill` (like a crash) any number of
    times. `primary`: a server that runs; this one follows it as a standby until `promote`."""

    def __init__(self, primary: PostgresServer | None = None) -> None:
        self._bin = postgres_bin()
        self._as = _unprivileged()
        # Not below a directory of root's, which may be closed to other users.
        place = "/tmp" if self._as else None
        self.directory = Path(tempfile.mkdtemp(prefix="groupd-postgres-", dir=place))
        self._data = self.directory / "data"
        self._log = self.directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._shared: str | None = None
        self.port = 0
        try:
            if primary is None:
                self._create()
            else:
                self._copy(primary)
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        password = self.directory / "password"
        password.write_text(PASSWORD)
        if self._as:
            for path in (self.directory, password):
                os.chown(path, self._as["user"], self._as["group"])
        command = [str(self._bin / "initdb"), "--pgdata", str(self._data), "--username", USER]
        command += ["--pwfile", str(password), "--auth", "scram-sha-256", "--encoding", "UTF8"]
        command += ["--no-locale", "--no-instructions"]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.directory, check=False, **self._as
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _copy(self, primary: PostgresServer) -> None:
        os.chmod(self.directory, 0o700)
        if self._as:
            os.chown(self.directory, self._as["user"], self._as["group"])
        place = f"host=127.0.0.1 port={primary.port} user={USER} password={PASSWORD}"
        command = [str(self._bin / "pg_basebackup"), "--pgdata", str(self._data), "--dbname", place]
        command += ["--write-recovery-conf", "--checkpoint", "fast"]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.directory, check=False, **self._as
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def wait_for_standbys(self) -> None:
        """From now on a commit waits until a standby has it on its disk, too."""
        self.execute(
            "postgres",
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        )
        following = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_until(
            lambda: self.execute("postgres", following), START_TIMEOUT_S, "a standby", self.logs
        )

    def promote(self) -> None:
        """A standby becomes a primary, on a timeline of its own. It waits for no standby itself."""
        self.execute("postgres", "SELECT pg_promote()")
        self.execute(
            "postgres",
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_reload_conf()",
        )

    def has_all_of(self, primary: PostgresServer) -> bool:
        """Whether this standby has on its disk what is on the primary's now."""
        (written,) = primary.execute("postgres", "SELECT pg_current_wal_flush_lsn()::text AS place")
        behind = f"pg_wal_lsn_diff('{written['place']}', pg_last_wal_receive_lsn()) <= 0"
        return bool(self.execute("postgres", f"SELECT 1 WHERE {behind}"))

    def follow_no_more(self) -> None:
        """A standby receives nothing any more."""
        self.execute(
            "postgres", "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"
        )
        receives = "SELECT 1 FROM pg_stat_wal_receiver"
        wait_until(
            lambda: not self.execute("postgres", receives), START_TIMEOUT_S, "a cut", self.logs
        )

    def start(self) -> None:
        """Starts on the port of the last start; the first time on a free one."""
        for _ in range(START_ATTEMPTS):
            if self._started():
                return
            self.stop()
            self.port = 0
        raise AssertionError(f"PostgreSQL does not start\n{self.logs()}")

    def _started(self) -> bool:
        self.port = self.port or free_ports("127.0.0.1", 1)
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.directory, **self._as
            )
        process = self._process
        wait_until(
            lambda: process.poll() is not None or self._answers(),
            START_TIMEOUT_S,
            "PostgreSQL answers",
            self.logs,
        )
        return process.poll() is None

    def _answers(self) -> bool:
        try:
            self.execute("postgres", "SELECT 1")
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Nothing is flushed; the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(30)

    def close(self) -> None:
        """Stop it and remove what it holds."""
        try:
            self.kill()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def logs(self) -> str:
        return self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""

    def statements(self, database: str) -> Counter[str]:
        """How many statements of sessions of a database are in the log, with log_statement, by
        their first words."""
        log = self._log.read_text(errors="replace")
        pattern = rf" {database} LOG:  (?:statement|execute [^:]*): (\w+)"
        return Counter(re.findall(pattern, log))

    def url(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        """The address of a database, as `--store` takes it."""
        who = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"postgresql+asyncpg://{who}@127.0.0.1:{self.port}/{database}"

    def url_with(self, other: PostgresServer, database: str) -> str:
        """The address of a database that is on this server or on another, whichever is primary."""
        who = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
        hosts = "".join(f"&host=127.0.0.1:{one.port}" for one in (self, other))
        return f"postgresql+asyncpg://{who}@/{database}?target_session_attrs=read-write{hosts}"

    def new_database(self) -> str:
        """The name of an empty database."""
        name = f"groupd_{uuid.uuid4().hex[:12]}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return name

    def emptied_database(self) -> str:
        """The name of a database that is empty again: much quicker than a new one, but there is
        only one."""
        if self._shared is None:
            self._shared = self.new_database()
        # Sessions of the test before may be about to end; they would hold locks.
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{self._shared}' AND pid <> pg_backend_pid()"
        )
        wait_until(
            lambda: not self.execute("postgres", others), START_TIMEOUT_S, "no session", self.logs
        )
        self.execute(self._shared, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        return self._shared

    async def connect(self, database: str) -> asyncpg.Connection:
        return await asyncpg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, database=database
        )

    def execute(self, database: str, *statements: str) -> list[asyncpg.Record]:
        """Rows of the last statement. Needs no running loop and none of its own."""

        async def run() -> list[asyncpg.Record]:
            connection = await self.connect(database)
            try:
                for statement in statements[:-1]:
                    await connection.execute(statement)
                return await connection.fetch(statements[-1])
            finally:
                await connection.close()

        return _in_a_thread(run)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A started server, gone afterwards."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextmanager
def running_standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    """A started standby that follows the server, gone afterwards."""
    standby = PostgresServer(primary)
    try:
        standby.start()
        yield standby
    finally:
        standby.close()


def _in_a_thread(run: Any) -> Any:
    """Runs it in a loop of another thread, since tests have a loop that runs already."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, run()).result()
