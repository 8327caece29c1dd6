"""Honest clients that come anew each time: with and without TLS, a login by each mechanism, from
the address of the attackers and from another one. And who asks the admin port how groupd is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count, cycle
from typing import NamedTuple

from tests.attack.frames import API_VERSIONS, request
from tests.attack.honest_clients import CLIENT, Client, Lost
from tests.attack.victim import Door, Victim
from tests.support.raw import frame
from tests.support.sasl_client import PASSWORDS
from tests.support.sasl_frames import authenticate, handshake, read_authenticated, read_handshake
from tests.support.scram_client import ScramClient
from tests.support.tokens import message

NEWCOMER = "newcomer-"
"""The names of these clients begin with it."""
USER = "bob"
ELSEWHERE = "127.0.0.2"
WITHIN_S = 30.0

_NONCES = count()


class Way(NamedTuple):
    """How a newcomer comes: `mechanism` empty for one without a login, `source` empty for the
    address of everybody else."""

    name: str
    secure: bool = False
    mechanism: str = ""
    source: str = ""


WAYS = (
    Way("plain"),
    Way("tls", secure=True),
    Way("tls from elsewhere", secure=True, source=ELSEWHERE),
    Way("PLAIN", mechanism="PLAIN"),
    Way("PLAIN from elsewhere", mechanism="PLAIN", source=ELSEWHERE),
    Way("PLAIN tls", secure=True, mechanism="PLAIN"),
    Way("SCRAM tls", secure=True, mechanism="SCRAM-SHA-256"),
    Way("OAUTHBEARER", mechanism="OAUTHBEARER"),
    Way("OAUTHBEARER tls from elsewhere", True, "OAUTHBEARER", ELSEWHERE),
)


class Newcomer(Client):
    """Connects, logs in, is answered once, and goes. In a cluster to the next node each time."""

    every_s = 0.5

    def __init__(self, victim: Victim, way: Way) -> None:
        super().__init__(victim, NEWCOMER + way.name, secure=way.secure)
        self._way = way
        self._doors = cycle(zip(victim.nodes, victim.doors, strict=True))
        self._context = victim.tls() if way.secure else None

    async def open(self) -> None:
        """Does nothing: each request has a connection of its own."""

    async def _join(self) -> None:
        """Does nothing: it is no member of a group."""

    async def ask(self) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._come(*next(self._doors))
                if self._way.mechanism:
                    await self._log_in(self._way.mechanism)
                asked = request(API_VERSIONS, 0, b"", flexible=False, client=CLIENT)
                if (await self.exchange(asked))[4:6] != b"\0\0":
                    raise Lost("ApiVersions: an error")
        finally:
            self.close()

    async def _come(self, plain: tuple[str, int], door: Door) -> None:
        if self._way.mechanism:
            address = door.secure_login if self.secure else door.login
        else:
            address = door.secure if self.secure else plain
        self._reader, self._writer = await asyncio.open_connection(
            *address,
            ssl=self._context,
            local_addr=(self._way.source, 0) if self._way.source else None,
        )

    async def _log_in(self, mechanism: str) -> None:
        reply = await self.exchange(frame(handshake(mechanism)))
        if error := read_handshake(reply[4:]).error:
            raise Lost(f"SaslHandshake: error {error}")
        if mechanism == "PLAIN":
            await self._step(f"\0{USER}\0{PASSWORDS[USER]}".encode())
        elif mechanism == "OAUTHBEARER":
            await self._step(message(self.victim.tokens[USER]))
        else:
            scram = ScramClient(mechanism, USER, PASSWORDS[USER], f"nonce-{next(_NONCES)}")
            await self._step(scram.final(await self._step(scram.first())))

    async def _step(self, token: bytes) -> bytes:
        said = read_authenticated((await self.exchange(frame(authenticate(token))))[4:])
        if said.error:
            raise Lost(f"{self._way.mechanism}: error {said.error}: {said.message}")
        if said.token.startswith(b"{"):
            raise Lost(f"{self._way.mechanism}: {said.token!r}")
        return said.token


class Watcher(Client):
    """Asks the admin port of a node for a page, with a token or without."""

    every_s = 0.5

    def __init__(
        self, victim: Victim, name: str, address: tuple[str, int], page: str, token: str = ""
    ) -> None:
        super().__init__(victim, NEWCOMER + name)
        self._at = address
        self._probes = page == "/healthz"
        head = f"GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        if token:
            head += f"Authorization: Bearer {token}\r\n"
        self._head = f"{head}\r\n".encode()

    async def open(self) -> None:
        """Does nothing: each request has a connection of its own."""

    async def _join(self) -> None:
        """Does nothing: it speaks HTTP."""

    async def ask(self) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                reader, self._writer = await asyncio.open_connection(*self._at)
                self._writer.write(self._head)
                answer = await reader.read()
        finally:
            self.close()
        status = answer.partition(b"\r\n")[0].decode(errors="replace")
        # Pages have few places; when they are full a client is told to come again. Not probes.
        full = b"\r\nRetry-After:" in answer and " 503 " in f"{status} " and not self._probes
        if " 200 " not in f"{status} " and not full:
            raise Lost(status or "closed without an answer")


def newcomers(victim: Victim) -> Sequence[Client]:
    """None if the victim has no doors with a login, or nobody is known there."""
    if not victim.tokens:
        return ()
    healths = [
        Watcher(victim, "healthz" if not number else f"healthz {number}", door.admin, "/healthz")
        for number, door in enumerate(victim.doors)
    ]
    admin = Watcher(victim, "admin", victim.doors[0].admin, "/", victim.admin_token)
    return [*(Newcomer(victim, way) for way in WAYS), *healths, admin]
