"""Honest clients on plain sockets, whose waits are measured: a classic group, sessions of 6 s, a
KIP-848 group, a committer with a ledger and a producer, half of them over TLS; and clients that
come and log in anew each time (`tests.attack.newcomers`).

`python -m tests.attack.honest VICTIM` answers lines of its standard input: "begin" and "end", whose
answer is a `Report` of what came between. What a wait owes to this machine is taken off: time in
which this process was late itself, and in which the broker's thread was ready to run but
other processes had the processors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

import msgspec

from tests.attack.honest_clients import Client, Fenced, Lost, honest_clients
from tests.attack.newcomers import newcomers
from tests.attack.victim import Victim
from tests.attack.waits import Lateness, Spread, Wait

NICENESS = -10
ENDS_WITHIN_S = 75.0
"""How long to wait for replies that are still missing when the attack is over."""
RETRY_S = 0.1


class Report(msgspec.Struct):
    """`waits`: the longest ones. Of all waits `own` is the broker's part, `whole` also has what the
    machine took, `worked` is the broker's processor time, and `by_client` the same by client.
    `requests`: those that were answered. `fenced`: (client, why). `lost`: connections of honest
    clients that the broker ended. `ledger`: what is wrong with acknowledged commits."""

    waits: list[Wait]
    requests: int
    fenced: list[tuple[str, str]]
    lost: list[tuple[str, str]]
    ledger: list[str]
    own: Spread = Spread()
    whole: Spread = Spread()
    worked: Spread = Spread()
    by_client: dict[str, Spread] = {}


class Honest:
    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self._lateness = Lateness(victim.pids)
        self._clients = [*honest_clients(victim), *newcomers(victim)]
        self._waits: list[Wait] = []
        self._since: dict[str, float] = {}
        """When each request under way was sent, by client."""
        self._fenced: list[tuple[str, str]] = []
        self._lost: list[tuple[str, str]] = []
        self._count = 0
        self._began = 0.0
        self._ready = 0

    async def run(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        tasks = [asyncio.create_task(self._live(client)) for client in self._clients]
        tasks.append(asyncio.create_task(self._lateness.watch()))
        while self._ready < len(self._clients):
            await asyncio.sleep(0.01)
        self._lateness.find_writers()
        print("ready", flush=True)
        while line := await reader.readline():
            if line.strip() == b"begin":
                self._begin()
                print("begun", flush=True)
            else:
                print(msgspec.json.encode(await self._end()).decode(), flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self) -> None:
        self._waits, self._fenced, self._lost, self._count = [], [], [], 0
        self._began = time.monotonic()

    async def _end(self) -> Report:
        """The report, once each client has had an answer to what it asks now."""
        ended = time.monotonic()
        while time.monotonic() - ended < ENDS_WITHIN_S:
            if all(at > ended for at in self._since.values()):
                break
            await asyncio.sleep(0.02)
        for name, at in self._since.items():
            if at < ended:
                waited = time.monotonic() - at
                self._waits.append(Wait(waited, waited, f"{name} (no answer)", at))
        ledger = []
        for client in self._clients:
            ledger += await self._checked(client)
        worst = sorted(self._waits, key=lambda wait: -wait.seconds)[:20]
        return Report(
            worst,
            self._count,
            self._fenced,
            self._lost,
            ledger,
            Spread.of(wait.seconds for wait in self._waits),
            Spread.of(wait.whole for wait in self._waits),
            Spread.of(wait.worked for wait in self._waits),
            {
                client.name: Spread.of(
                    wait.worked for wait in self._waits if wait.what == client.name
                )
                for client in self._clients
            },
        )

    async def _checked(self, client: Client) -> list[str]:
        """Waits until the client can read its ledger again; returns a line for each mistake."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await client.check()
            except (OSError, EOFError, TimeoutError, Lost) as error:
                if time.monotonic() > deadline or not self._runs():
                    return [f"{client.name}: not to be read: {error!r}"]
            await asyncio.sleep(RETRY_S)

    def _runs(self) -> bool:
        """Whether there is still a broker: one that has ended has no command line."""
        try:
            return Path(f"/proc/{self._victim.pids[0]}/cmdline").read_bytes() != b""
        except OSError:
            return False

    async def _live(self, client: Client) -> None:
        """Joins, asks at its intervals, and comes back after whatever happens to it."""
        known = False
        while True:
            self._since[client.name] = time.monotonic()
            try:
                await client.open()
                if not known:
                    known = True
                    self._ready += 1
                while True:
                    await self._ask(client)
                    await asyncio.sleep(client.every_s)
            except Fenced as error:
                self._fenced.append((client.name, str(error)))
            except (OSError, EOFError, Lost, TimeoutError) as error:
                if known:
                    self._lost.append((client.name, repr(error)[:100]))
            finally:
                self._since.pop(client.name, None)
                client.close()
            await asyncio.sleep(RETRY_S)

    async def _ask(self, client: Client) -> None:
        mark = self._lateness.mark()
        self._since[client.name] = mark.at
        await client.ask()
        wait = self._lateness.since(mark, client.name, client.writes)
        self._count += 1
        self._since[client.name] = time.monotonic()
        if mark.at >= self._began:
            self._waits.append(wait)


def main() -> None:
    victim = msgspec.json.decode(sys.argv[1].encode(), type=Victim)
    # A process that only measures is not to wait for processors itself.
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    asyncio.run(Honest(victim).run())


if __name__ == "__main__":
    main()
