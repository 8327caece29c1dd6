"""The admin port beside clients that say nothing, read nothing, or ask for too much: a server with
handlers of the test, on real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from itertools import count
from typing import Any

import pytest

from groupd.coordinator.admin import http_server as admin_http
from groupd.coordinator.admin.admin_limits import REQUESTS_MAX
from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, refusal, text
from groupd.coordinator.admin.http_server import UNASKED_MAX
from groupd.coordinator.admin.pages import PAGE_BYTES
from groupd.coordinator.runtime.long_work import SLICE_NS, LongWork
from tests.support.loop_turns import until
from tests.unit.admin.servers import server_of

DEADLINE_S = 10.0
UNREAD = b"x" * (2 * PAGE_BYTES)
"""A page with more bytes than the kernel takes for a client that does not read."""
EVIL = "evil.example:9644"
JSON_BODY = "Content-Type: application/json; charset=utf-8"


class Port:
    """A server: `/unread` is very long; `/slow` and `/endless` end when `release` is set, and
    `/endless` is at work until then."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.controlled: list[str] = []
        self.steps = 0
        """The steps of endless pages; one step is a slice."""
        self._work = LongWork(count(step=SLICE_NS).__next__)
        self.server = server_of(
            self._answer, self._control, hosts=["ops.example"], actions={"cluster": self._act}
        )
        self.address = ("", 0)
        self._open: list[socket.socket] = []

    def _answer(self, request: HttpRequest) -> Any:
        match request.path:
            case ("unread",):
                return HttpReply(UNREAD)
            case ("endless",):
                return self._work.run(self._endless())
            case ("slow",):
                return self._slow()
            case _:
                return text("ok")

    def _endless(self) -> Generator[None, None, HttpReply]:
        while not self.release.is_set():
            self.steps += 1
            yield
        return text("at last")

    async def _slow(self) -> HttpReply:
        await self.release.wait()
        return text("at last")

    async def _control(self, request: HttpRequest) -> HttpReply:
        self.controlled.append(request.method)
        return text("done")

    async def _act(self, request: HttpRequest) -> HttpReply:
        self.controlled.append("/".join(request.path))
        if request.query.get("node") == "many":
            raise refusal("node=many: must be a whole number")
        return text("done")

    async def dial(self, data: bytes = b"") -> socket.socket:
        """A connection that has sent so much and reads nothing by itself."""
        made = socket.socket()
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._open.append(made)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, self.address)
        await loop.sock_sendall(made, data)
        return made

    async def ask(
        self, path: str, host: str = "localhost", method: str = "GET", header: str = ""
    ) -> tuple[int, str]:
        """Status and the whole answer; 0 if there is none. `header`: one line more."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Content-Length: 0"]
        head = "".join(f"{line}\r\n" for line in [*lines, *([header] if header else []), ""])
        return await read_reply(await self.dial(head.encode()))

    def close(self) -> None:
        for one in self._open:
            one.close()


async def read_reply(client: socket.socket) -> tuple[int, str]:
    found = b""
    async with asyncio.timeout(DEADLINE_S):
        while part := await asyncio.get_running_loop().sock_recv(client, 1 << 16):
            found += part
    return (int(found.split()[1]) if found else 0), found.decode()


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    made = Port()
    made.address = await made.server.start("127.0.0.1", 0)
    yield made
    made.release.set()
    made.close()
    await made.server.close()


def held(port: Port, kind: str) -> int:
    return len(port.server._limits[kind])


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def test_connections_that_say_nothing_keep_nobody_out(port: Port) -> None:
    silent = [await port.dial() for _ in range(UNASKED_MAX + 50)]
    assert (await port.ask("/healthz"))[0] == 200
    assert (await port.ask("/groups"))[0] == 200
    for one in silent[:50]:
        assert await read_reply(one) == (0, "")
    newest = silent[-1]
    await asyncio.get_running_loop().sock_sendall(newest, get("/groups"))
    assert (await read_reply(newest))[0] == 200


async def test_a_head_that_comes_byte_by_byte_has_an_end(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_http, "REQUEST_TIMEOUT_S", 0.05)
    slow = await port.dial(b"GET / HTTP/1.1\r\nX: ")
    assert await read_reply(slow) == (0, "")
    await until(lambda: len(port.server._unasked) == 0)


@pytest.mark.slow
async def test_pages_that_nobody_reads_keep_nobody_out(port: Port) -> None:
    for _ in range(64):
        await port.dial(get("/unread"))
    await until(lambda: held(port, "pages") == REQUESTS_MAX["pages"])
    for path in ("/healthz", "/readyz", "/metrics", "/groups"):
        assert (await port.ask(path))[0] == 200, path
    assert held(port, "pages") <= REQUESTS_MAX["pages"]


async def test_a_health_check_waits_for_few_turns_of_long_pages(port: Port) -> None:
    for _ in range(REQUESTS_MAX["pages"]):
        await port.dial(get("/endless"))
    await until(lambda: port.steps > 0)
    before = port.steps
    assert (await port.ask("/healthz"))[0] == 200
    # There are as many steps as turns of the loop, which the client here shares.
    assert port.steps - before <= 30


async def test_the_time_for_a_reply_does_not_depend_on_its_length(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_http, "SEND_TIMEOUT_S", 0.05)
    for _ in range(4):
        await port.dial(get("/unread"))
    await until(lambda: held(port, "pages") > 0)
    await until(lambda: held(port, "pages") == 0)
    assert (await port.ask("/groups"))[0] == 200


async def test_more_pages_than_places_are_refused_at_once_with_a_reason(port: Port) -> None:
    slow = [await port.dial(get("/slow")) for _ in range(REQUESTS_MAX["pages"])]
    await until(lambda: held(port, "pages") == REQUESTS_MAX["pages"])
    status, answer = await port.ask("/groups")
    assert status == 503
    assert "retry-after: 1\r\n" in answer.lower()
    assert answer.endswith("\r\n\r\nbusy: all 8 places for pages are taken\n")
    for path in ("/healthz", "/readyz", "/metrics", "/control/clock"):
        assert (await port.ask(path))[0] == 200, path
    port.release.set()
    for one in slow:
        assert (await read_reply(one))[0] == 200
    assert (await port.ask("/groups"))[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "/groups", "/groups/g/offsets", "/config", "/metrics", "/control/clock"]
)
async def test_a_page_from_elsewhere_gets_nothing_by_its_own_name(port: Port, path: str) -> None:
    status, answer = await port.ask(path, EVIL)
    assert status == 421
    assert answer.endswith("\r\n\r\nnot a name of this port; see groupd.admin.hosts\n")
    assert (await port.ask(path, EVIL, "POST"))[0] == 421
    assert port.controlled == []
    for host in ("localhost:1", "127.0.0.1", "[::1]:9644", "10.1.2.3:9644", "OPS.example"):
        assert (await port.ask(path, host))[0] == 200, host


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_come_by_any_name(port: Port, path: str) -> None:
    assert (await port.ask(path, "groupd.monitoring.svc:9644"))[0] == 200


async def test_of_pipelined_requests_the_first_is_answered(port: Port) -> None:
    status, answer = await read_reply(await port.dial(get("/groups") * 50))
    assert (status, answer.count("HTTP/1.1 ")) == (200, 1)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/groups?" + "&".join(f"a{n}=1" for n in range(5000)), 431),
        ("/groups?" + "&".join("a=1" for _ in range(100)), 400),
        ("/" + "x" * 100_000, 431),
        ("/" + "/" * 10_000, 200),
    ],
    ids=["many parameters", "some too many", "long path", "slashes"],
)
async def test_odd_targets_are_refused(port: Port, path: str, status: int) -> None:
    assert (await port.ask(path))[0] == status
    assert (await port.ask("/healthz"))[0] == 200


async def test_an_action_is_asked_for_by_post(port: Port) -> None:
    status, answer = await port.ask("/cluster/drain?node=1", method="POST", header=JSON_BODY)
    assert (status, answer.rpartition("\r\n\r\n")[2]) == (200, "done\n")
    assert port.controlled == ["cluster/drain"]
    # A GET of the same path is a page, and other paths have no actions.
    assert (await port.ask("/cluster/drain?node=1"))[0] == 200
    assert (await port.ask("/groups", method="POST", header=JSON_BODY))[0] == 405
    assert port.controlled == ["cluster/drain"]


async def test_an_action_that_cannot_be_read_is_refused(port: Port) -> None:
    status, answer = await port.ask("/cluster/drain?node=many", method="POST", header=JSON_BODY)
    assert status == 400
    assert answer.endswith("\r\n\r\nnode=many: must be a whole number\n")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Content-Type: text/plain", 415),
        ("X: no type at all", 415),
        (f"{JSON_BODY}\r\nOrigin: http://evil.example", 403),
    ],
)
async def test_a_web_page_cannot_make_a_browser_act(port: Port, header: str, status: int) -> None:
    got, _ = await port.ask("/cluster/drain?node=1", method="POST", header=header)
    assert got == status
    assert (await port.ask("/cluster/drain", EVIL, "POST", JSON_BODY))[0] == 421
    assert port.controlled == []
