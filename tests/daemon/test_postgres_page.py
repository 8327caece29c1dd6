"""PostgreSQL as docs/serve.md sets it up: its commands, as they stand, on a server of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.daemon import ROOT, Daemon
from tests.support.postgres import PASSWORD, PostgresServer, postgres_bin, running_postgres
from tests.support.raw_member import RawMember, admin_json

BLOCK = re.compile(r"<!-- postgres -->\n```sh\n(.*?)```\n", re.DOTALL)
STORE = "postgresql+asyncpg://groupd@db.example:5432/groupd"
NEW_PASSWORD = "as the administrator typed it"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server as Debian makes one: its only user is the administrator `postgres`."""
    with running_postgres() as server:
        server.execute("postgres", f"CREATE ROLE postgres SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
        administer(server, "psql -c 'ALTER ROLE groupd RENAME TO unused' postgres")
        yield server


def administer(server: PostgresServer, command: str, typed: str = "") -> str:
    """The administrator runs `command` in a shell without a terminal: passwords are read from
    stdin. Returns its output."""
    environment = {
        **os.environ,
        "PATH": f"{postgres_bin()}:{os.environ['PATH']}",
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGUSER": "postgres",
        "PGPASSWORD": PASSWORD,
    }
    done = subprocess.run(
        ["bash", "-euc", command],
        env=environment,
        input=typed,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def commands() -> list[str]:
    """The commands of the page, without pip's."""
    found = BLOCK.search((ROOT / "docs" / "serve.md").read_text())
    assert found is not None
    lines = [line for line in found[1].splitlines() if not line.startswith("#")]
    assert lines[0].startswith("pip install 'groupd[postgres]'")
    return lines[1:]


def test_the_commands_of_the_page_make_a_store(server: PostgresServer, tmp_path: Path) -> None:
    *setup, serve = commands()
    for command in setup:
        typed = f"{NEW_PASSWORD}\n" * 2 if "--pwprompt" in command else ""
        administer(server, command, typed)
    # The user groupd is no superuser, and the schema public is not open to everybody.
    rights = (
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = 'groupd'"
    )
    assert administer(server, f'psql -AtX -c "{rights}" postgres').strip() == "f"
    password, program, *arguments = shlex.split(serve)
    assert (password, program, arguments) == (
        "PGPASSWORD=...",
        "groupd",
        ["serve", "--store", STORE],
    )
    store = STORE.replace("db.example:5432", f"127.0.0.1:{server.port}")
    daemon = Daemon(tmp_path, arguments=["--store", store], env={"PGPASSWORD": NEW_PASSWORD})
    try:
        daemon.start()
        with closing(RawMember(daemon, "billing", "first", {})) as first:
            first.join(["orders"])
        daemon.restart()
        (member,) = admin_json(daemon, "/groups/billing")["members"]
        assert member["member_id"] == "first"
    finally:
        daemon.close()


def test_a_user_who_does_not_own_the_database_is_told_what_to_do(
    server: PostgresServer, tmp_path: Path
) -> None:
    """`createdb` alone, by an administrator, is not enough from PostgreSQL 15 on."""
    version = administer(server, "psql -AtX -c 'SHOW server_version_num' postgres")
    assert int(version) >= 150_000, "with an older server this test shows nothing"
    administer(server, "createuser guest && createdb foreign_owner")
    administer(server, f"psql -c \"ALTER ROLE guest PASSWORD '{NEW_PASSWORD}'\" postgres")
    store = f"postgresql+asyncpg://guest@127.0.0.1:{server.port}/foreign_owner"
    done = subprocess.run(
        [sys.executable, "-m", "groupd", "serve", "--listen", "127.0.0.1:0", "--store", store],
        env={**os.environ, "PGPASSWORD": NEW_PASSWORD},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "permission denied for schema public" in line
    assert "ALTER DATABASE foreign_owner OWNER TO ..." in line
    administer(server, "psql -c 'ALTER DATABASE foreign_owner OWNER TO guest' postgres")
    daemon = Daemon(tmp_path, arguments=["--store", store], env={"PGPASSWORD": NEW_PASSWORD})
    try:
        daemon.start()
    finally:
        daemon.close()
