"""What a start loads. A module costs about 0.2 ms of processor time, a large package 50 ms, so an
import in a wrong place is a slow start. A bound is raised only for a module that the start needs.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]

BEGIN = """
import sys
before = set(sys.modules)
def show():
    print("loaded", *(set(sys.modules) - before))
"""
MAIN = """
import atexit
atexit.register(show)
from groupd.coordinator.cli.main import main
main(sys.argv[1:])
"""
SERVE = """
from groupd.coordinator.cli import serve
from groupd.coordinator.cli.main import main
async def until(stop, daemon):
    show()
serve._until = until
main(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *sys.argv[1:]])
"""

NEVER = ("asyncpg", "cryptography", "kio", "opentelemetry", "pandas", "pyarrow", "pyspark")
COMMAND = (
    *NEVER,
    *("aiosqlite", "asyncio", "prometheus_client", "sqlalchemy", "structlog", "uvloop"),
    *("groupd.client", "groupd.coordinator.config.coordinator_config"),
    *("groupd.coordinator.runtime", "groupd.protocol.wire", "groupd.testing"),
)
DAEMON = (
    *NEVER,
    *("click", "crc32c._cli", "h11", "http.", "prometheus_client", "pydantic", "tomllib", "typer"),
    *("groupd.client", "groupd.coordinator.recording", "groupd.testing"),
    *("groupd.coordinator.security.sasl.enabled", "groupd.coordinator.security.tls"),
)


class Start(NamedTuple):
    """`ours`, `all`: how many modules of groupd, and of all packages, are loaded at most. The
    second has a margin, because it depends on versions. `without`: beginnings of the names of
    modules that are not loaded."""

    code: str
    words: Sequence[str]
    ours: int
    all: int
    without: Sequence[str] = ()


STARTS = {
    "import groupd": Start("import groupd; show()", (), 1, 1),
    "import groupd.testing": Start("import groupd.testing; show()", (), 2, 50),
    "--help": Start(MAIN, ("--help",), 60, 450, COMMAND),
    "groups list": Start(
        MAIN,
        ("groups", "list", "--admin", "{admin}"),
        28,
        330,
        (*COMMAND, "rich", "groupd.coordinator.core", "groupd.storage"),
    ),
    "serve in memory": Start(
        SERVE,
        ("--store", "memory://"),
        460,
        800,
        (*DAEMON, "aiosqlite", "email", "importlib.metadata", "sqlalchemy", "sqlite3"),
    ),
    "serve on SQLite": Start(
        SERVE,
        ("--data-dir", "{directory}"),
        470,
        950,
        (*DAEMON, "groupd.storage.memory", "sqlalchemy.ext", "sqlalchemy.orm"),
    ),
}


class _AdminPort(BaseHTTPRequestHandler):
    """An admin port of a daemon that is in no cluster and has no groups."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/groups" else 404)
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def admin() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _AdminPort) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", STARTS)
def test_a_start_loads_what_it_needs(name: str, admin: str, tmp_path: Path) -> None:
    start = STARTS[name]
    words = [word.format(admin=admin, directory=tmp_path) for word in start.words]
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + start.code, *words],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    (line,) = (one for one in done.stdout.splitlines() if one.startswith("loaded "))
    loaded = set(line.split()[1:])
    ours = {one for one in loaded if one.partition(".")[0] == "groupd"}
    assert {one for one in loaded if one.startswith(tuple(start.without))} == set()
    assert len(ours) <= start.ours, sorted(ours)
    assert len(loaded) <= start.all, sorted(loaded)
