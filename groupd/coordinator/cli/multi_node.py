"""`groupd serve --workers N`: N nodes of a cluster over PostgreSQL on one machine. Also the default
addresses of a node of a cluster."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog
from msgspec.structs import replace

from groupd.coordinator.advertised import address_text
from groupd.coordinator.cli.parse import host_port
from groupd.coordinator.cli.serve_flags import ServeFlags, words_of
from groupd.coordinator.daemon.daemon import CannotStart, Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.storage.postgres_url import parse_url

# Default addresses ------------------------------------------------------------------------------

# Other nodes and clients must reach a node. So by default it listens on the address from which this
# machine reaches the database. It uses the usual ports, or free ones if another node on this
# machine has taken them.

LOOPBACK = "127.0.0.1"
_POSTGRES_PORT = 5432


def own_address(store_url: str) -> str:
    """The address from which this machine reaches the database. Sends nothing. Raises
    StoreRefused."""
    found = parse_url(store_url).host
    with suppress(OSError):
        place = socket.getaddrinfo(found, _POSTGRES_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(*place[:3]) as probe:
            probe.connect(place[4])
            return str(probe.getsockname()[0])
    return LOOPBACK


def port_or_any(host: str, port: int) -> int:
    """Returns the port if it is free, else 0, which means any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return 0
    return port


# Further nodes ----------------------------------------------------------------------------------

# This process is the first node and starts the others, each as a `groupd serve --cluster` of its
# own. Clients connect to each process directly. A node that ends is started again. All nodes end
# with this process, because the pipe on their stdin is closed then.

log = structlog.get_logger("groupd.cluster")

PORT_MAX = 65_535
USAGE = 2
"""The exit code of a start that failed because of a mistake in flags or settings."""
RESTART_S = 1.0
STOP_S = 4.0
"""How long the other nodes may take to hand over and end. After that they are killed."""


class MultiNodeDaemon(Daemon):
    """The first node. It starts the other nodes after itself, and stops them with itself."""

    def __init__(self, options: DaemonOptions, flags: ServeFlags) -> None:
        super().__init__(options)
        self._flags = flags
        self._processes = [
            _NodeProcess(index, _command(flags, options, index))
            for index in range(1, flags.workers)
        ]

    async def start(self) -> None:
        try:
            # This node starts first, so that only one node makes the tables.
            await super().start()
            environment = _environment(self._flags)
            for one in self._processes:
                one.launch(environment)
            for one in self._processes:
                await one.ready.wait()
                if one.refused:
                    raise CannotStart("--workers: a further node cannot start, see its line above")
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await asyncio.gather(self._stop_processes(), super().stop())

    async def _stop_processes(self) -> None:
        await asyncio.gather(*(one.stop() for one in self._processes))


class _NodeProcess:
    """A process that is started again when it ends. `ready` is set once it has served, or once it
    was `refused`: then it is not started again, because it would be refused again."""

    def __init__(self, index: int, command: Sequence[str]) -> None:
        self.ready = asyncio.Event()
        self.refused = False
        self._index = index
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def launch(self, environment: Mapping[str, str]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._supervise(environment))

    async def _supervise(self, environment: Mapping[str, str]) -> None:
        while True:
            try:
                code = await self._run(environment)
            except OSError as error:
                log.warning("a node cannot be started", number=self._index, reason=str(error))
            else:
                if code == USAGE and not self.ready.is_set():
                    self.refused = True
                    self.ready.set()
                    return
                log.warning("a node has ended: it is started again", number=self._index, code=code)
            await asyncio.sleep(RESTART_S)

    async def _run(self, environment: Mapping[str, str]) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        assert process.stdout is not None
        async for line in process.stdout:
            log.info("a node serves", number=self._index, line=line.decode().strip())
            self.ready.set()
        return await process.wait()

    async def stop(self) -> None:
        """Makes the node hand over and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _command(flags: ServeFlags, options: DaemonOptions, index: int) -> list[str]:
    """The command of another node: the same flags with ports of its own. If the first node was
    given an id, it also has an id of its own."""
    own = replace(
        flags,
        listen=_beside(options.listen, index),
        advertised=None if options.advertised is None else _beside(options.advertised, index),
        admin=_beside(options.admin or host_port(flags.admin, "--admin"), index),
        topics=(),
        workers=1,
        cluster=True,
        until_stdin_ends=True,
        store=None,
    )
    if options.config.node_id:
        own = replace(own, sets=(*own.sets, f"node.id={options.config.node_id + index}"))
    return [sys.executable, "-P", "-m", "groupd", "serve", *words_of(own)]


def _environment(flags: ServeFlags) -> dict[str, str]:
    """The store URL is passed in the environment: it may contain a password, which must not be
    visible in a list of processes."""
    return {**os.environ, "GROUPD_STORE": flags.store or "", "PYTHONPATH": _module_path()}


def _module_path() -> str:
    """The module path of this process, as the PYTHONPATH of another one."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)


def _beside(address: tuple[str, int], index: int) -> str:
    host, port = address
    return address_text(host, port + index if port and port + index <= PORT_MAX else 0)
