"""A session whose statement has failed, or whose end the driver has not understood yet, is given
up: nobody waits for it, and the next transaction gets another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.util import await_only

from groupd.storage import membership_rows, postgres_membership, postgres_session
from groupd.storage.cluster import NodeFacts
from groupd.storage.log import LogUnavailable, LogUncertain
from groupd.storage.membership_rows import clock_ms
from groupd.storage.postgres import PostgresBackend
from groupd.storage.postgres_cluster import cluster_store
from groupd.storage.postgres_url import parse_url
from tests.support.postgres import PostgresServer
from tests.support.proxy import Proxy

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE pid = {}"
LIMIT_MS, USUAL_MS = 3000, 30_000


def message(kind: bytes, *fields: bytes) -> bytes:
    """A message of the server: an error or a notice with these fields."""
    body = b"\0".join(fields) + b"\0\0"
    return kind + (4 + len(body)).to_bytes(4) + body


IDLE_TOO_LONG = message(
    b"E", b"SFATAL", b"VFATAL", b"C25P03", b"Mterminating connection due to a secret of the driver"
)
NOTICE = message(b"N", b"SNOTICE", b"VNOTICE", b"C00000", b"Mread up to here")


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.emptied_database()


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[Proxy]:
    async with Proxy(postgres.port) as proxy:
        yield proxy


def url_through(proxy: Proxy, postgres: PostgresServer, database: str) -> str:
    return postgres.url(database).replace(f":{postgres.port}/", f":{proxy.port}/")


@pytest.fixture
def limit_ms() -> int:
    """How long a statement may take."""
    return USUAL_MS


limited = pytest.mark.parametrize("limit_ms", [LIMIT_MS])


@pytest.fixture
async def backend(
    proxy: Proxy,
    postgres: PostgresServer,
    database: str,
    limit_ms: int,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[PostgresBackend]:
    """Nobody looks after its sessions but those who use them."""
    monkeypatch.setattr(postgres_session, "SILENCE_S", 0.0)
    monkeypatch.setattr(PostgresBackend, "watch_s", 600)
    url = url_through(proxy, postgres, database)
    backend = PostgresBackend(parse_url(f"{url}?statement_timeout={limit_ms}&pool_size=1"))
    await backend.start()
    yield backend
    await backend.close()


def driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def server_pid(connection: Connection) -> int:
    return int(driver(connection).get_server_pid())


def ended_in_between(proxy: Proxy) -> Callable[[Connection], None]:
    """Two statements; between them the driver reads that the server ends the session, but not yet
    that the connection is closed. So it is where a process has stood still for a while."""

    def work(connection: Connection) -> None:
        clock_ms(connection)
        read = asyncio.Event()
        driver(connection).add_log_listener(lambda *_: read.set())
        proxy.answer(IDLE_TOO_LONG + NOTICE)
        await_only(read.wait())
        clock_ms(connection)

    return work


def assert_our_words(error: LogUnavailable) -> None:
    for words in ("state", "another operation", "secret", "protocol", "\n"):
        assert words not in str(error)


@pytest.mark.parametrize("way", ["read", "write"])
async def test_a_session_that_ends_between_two_statements(
    backend: PostgresBackend, proxy: Proxy, way: str
) -> None:
    run = getattr(backend, way)
    before = await run(server_pid)
    with pytest.raises(LogUncertain, match="InternalClientError") as caught:
        await run(ended_in_between(proxy))
    assert_our_words(caught.value)
    assert await run(server_pid) != before


async def test_a_renewal_whose_session_ends_in_between_costs_no_lease(
    proxy: Proxy, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_membership, "ANSWER_MS", USUAL_MS)
    store = cluster_store(url_through(proxy, postgres, database))
    await store.start()
    node = store.membership
    await node.join(NodeFacts(1, process="p"), 30_000)
    await node.renew(30_000, 0, -1)
    end_between = ended_in_between(proxy)
    with monkeypatch.context() as patched:
        patched.setattr(
            membership_rows,
            "update_me",
            lambda connection, *_, **__: end_between(connection),
        )
        with pytest.raises(LogUnavailable, match="InternalClientError") as caught:
            await node.renew(30_000, 0, -1)
    assert_our_words(caught.value)
    assert (await node.renew(30_000, 0, -1)).nodes[0].incarnation == 1
    await store.close()


@limited
@pytest.mark.parametrize("way", ["read", "write"])
async def test_a_statement_that_takes_too_long_is_given_up_with_its_session(
    backend: PostgresBackend, postgres: PostgresServer, database: str, way: str
) -> None:
    run = getattr(backend, way)
    pids: list[int] = []

    def slow(connection: Connection) -> None:
        pids.append(server_pid(connection))
        connection.execute(text("SET LOCAL statement_timeout = 6000"))
        connection.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(LogUnavailable, match=r"no answer in time \(TimeoutError\)$"):
        await run(slow)
    assert await run(server_pid) not in pids
    async with asyncio.timeout(30):  # its end on the server, too
        while postgres.execute(database, SESSIONS.format(pids[0])):
            await asyncio.sleep(0.01)


@limited
@pytest.mark.parametrize("way", ["read", "write"])
async def test_a_network_that_swallows_everything_in_a_transaction(
    backend: PostgresBackend, proxy: Proxy, way: str
) -> None:
    run = getattr(backend, way)

    def swallowed(connection: Connection) -> None:
        clock_ms(connection)
        proxy.freeze()
        clock_ms(connection)

    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.timeout(30):
        with pytest.raises(LogUnavailable, match="no answer in time"):
            await run(swallowed)
    assert loop.time() - started < 1.8 * LIMIT_MS / 1000, (
        "one limit for the statement, and none for its session"
    )
    proxy.thaw()
    assert await run(clock_ms)


async def test_a_caller_that_is_cancelled_leaves_nothing_to_the_next_one(
    backend: PostgresBackend,
) -> None:
    begun = asyncio.Event()

    def slow(connection: Connection) -> None:
        begun.set()
        connection.execute(text("SELECT pg_sleep(0.1)"))

    for _ in range(20):
        begun.clear()
        caller = asyncio.create_task(backend.read(slow))
        await begun.wait()
        caller.cancel()
        assert await backend.read(clock_ms)


async def test_what_the_work_refuses_leaves_the_session_as_it_was(backend: PostgresBackend) -> None:
    def refuse(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE half (id INTEGER)"))
        raise LogUnavailable("no")

    before = await backend.write(server_pid)
    with pytest.raises(LogUnavailable, match=r"^no$"):
        await backend.write(refuse)
    assert await backend.write(server_pid) == before
    assert not await backend.write(
        lambda connection: connection.scalar(text("SELECT to_regclass('half') IS NOT NULL"))
    )
