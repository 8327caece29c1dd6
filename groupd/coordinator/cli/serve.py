"""`groupd serve`: runs the daemon until a signal. Its flags are in `serve_flags`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from groupd.coordinator.advertised import address_text
from groupd.coordinator.cli import stop_signals
from groupd.coordinator.cli.parse import (
    UsageError,
    build_config,
    host_port,
    one_of,
    real_port,
    topic,
    visible_secrets,
)
from groupd.coordinator.cli.serve_flags import DEFAULT_ADMIN, DEFAULT_LISTEN, ServeFlags
from groupd.coordinator.cli.service_manager import ServiceManager
from groupd.coordinator.failures import DaemonFailed
from groupd.coordinator.runtime import collector
from groupd.coordinator.runtime.process_tuning import (
    give_back_large_blocks,
    threads_have_short_turns,
)

if TYPE_CHECKING:
    from groupd.coordinator.daemon.options import DaemonOptions

SHUTDOWN_LIMIT_S = 4.5
"""A shutdown is cut off after this many seconds, because groupd promises to stop within 5 s."""


class Served(Protocol):
    """The part of a daemon that `serve` uses; see `groupd.coordinator.daemon.daemon.Daemon`."""

    @property
    def kafka_addresses(self) -> Mapping[str, tuple[str, int]]: ...

    @property
    def admin_address(self) -> tuple[str, int]: ...

    @property
    def has_certificates(self) -> bool: ...

    def reload_certificates(self) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def lost(self) -> str: ...


def serve(flags: ServeFlags) -> None:
    """Returns when the daemon has stopped. Raises UsageError. Exits with 1 if another daemon has
    taken the store over, or if the store's server did not come up in time."""
    # The imports are here because usage errors need none of them.
    from groupd.coordinator.daemon.daemon import CannotStart
    from groupd.coordinator.server import descriptors
    from groupd.storage.log import StoreRefused

    _set_up_log(flags.log_format, flags.log_level)
    try:
        options = _options(flags)
        _warn_of_secrets(flags.sets)
        most = options.config.max_connections
        descriptors.raise_limit(most)
        ready = partial(descriptors.warn_if_few, most)
        _serve(_daemon(flags, options), ready, flags.until_stdin_ends)
    except (CannotStart, StoreRefused) as error:
        raise UsageError(str(error)) from None
    stop_signals.ignore()


def _warn_of_secrets(sets: Sequence[str]) -> None:
    if keys := visible_secrets(sets):
        import structlog

        structlog.get_logger("groupd.daemon").warning(
            "every user of this machine can read secrets on the command line; use --config, or "
            "${env:NAME}",
            keys=keys,
        )


def _options(flags: ServeFlags) -> DaemonOptions:
    """Returns the options of the daemon that the flags ask for. Raises UsageError, StoreRefused."""
    from groupd.coordinator.daemon.options import DaemonOptions

    config = build_config(flags.config, flags.sets, flags.profile)
    if config.listeners and flags.listen != DEFAULT_LISTEN:
        raise UsageError("--listen: not with listeners, which take its place; leave one out")
    cluster = _cluster(flags, has_listeners=bool(config.listeners))
    listen, admin = host_port(flags.listen, "--listen"), host_port(flags.admin, "--admin")
    if cluster:
        from groupd.coordinator.cli.multi_node import own_address, port_or_any

        if flags.listen == DEFAULT_LISTEN and not config.listeners:
            host = own_address(flags.store or "")
            listen = (host, port_or_any(host, listen[1]))
        if flags.admin == DEFAULT_ADMIN:
            admin = (admin[0], port_or_any(*admin))
    return DaemonOptions(
        listen=listen,
        advertised=real_port(flags.advertised, "--advertised") if flags.advertised else None,
        admin=admin,
        data_dir=flags.data_dir,
        store_url=flags.store,
        topics=tuple(topic(item) for item in flags.topics),
        config=config,
        cluster=cluster,
    )


def _daemon(flags: ServeFlags, options: DaemonOptions) -> Served:
    """Returns the daemon that the flags ask for. Raises UsageError, StoreRefused."""
    from groupd.coordinator.daemon.daemon import Daemon

    if flags.control:
        from groupd.coordinator.cli.controlled import ControlledDaemon

        return ControlledDaemon(options, flags)
    if flags.control_security != "PLAINTEXT":
        raise UsageError("--control-security: only with --control; see listeners")
    if flags.record is not None:
        from groupd.coordinator.cli.controlled import RecordedDaemon

        return RecordedDaemon(options, flags.record, flags.record_max << 20)
    if flags.workers > 1:
        from groupd.coordinator.cli.multi_node import MultiNodeDaemon

        return MultiNodeDaemon(options, flags)
    return Daemon(options)


def _set_up_log(log_format: str, log_level: str) -> None:
    from groupd.coordinator.logs import configure_logging

    one_of(log_format, "--log-format", ("text", "json"))
    one_of(log_level, "--log-level", ("debug", "info", "warning", "error"))
    configure_logging(log_format, log_level)


def _cluster(flags: ServeFlags, *, has_listeners: bool) -> bool:
    """Whether this is a node of a cluster, as it is with --workers, too. Raises UsageError for
    flags that a node of a cluster cannot have."""
    several = flags.workers > 1
    if not (flags.cluster or several):
        return False
    for name, given in (("--control", flags.control), ("--record", flags.record is not None)):
        if given:
            raise UsageError(f"{name}: not with {'--workers' if several else '--cluster'}")
    if not (flags.store or "").startswith("postgresql"):
        asked = "--cluster" if flags.cluster else f"--workers {flags.workers}"
        raise UsageError(
            f"{asked}: a store in SQLite or in memory serves one process; several nodes need "
            "--store postgresql+asyncpg://..., which they share"
        )
    if several and has_listeners:
        raise UsageError("listeners: not with --workers, whose ports follow that of --listen")
    return True


def _serve(daemon: Served, ready: Callable[[], None], until_stdin_ends: bool = False) -> None:
    import uvloop

    if until_stdin_ends and sys.stdin is None:
        # If stdin is closed, the next file that is opened gets descriptor 0.
        raise UsageError("--until-stdin-ends: stdin is closed; start groupd with a pipe there")
    give_back_large_blocks()
    threads_have_short_turns()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_run(daemon, ready, until_stdin_ends))
        except DaemonFailed as error:
            print(f"groupd: {error}: stopped", file=sys.stderr)
            sys.exit(1)


async def _run(daemon: Served, ready: Callable[[], None], until_stdin_ends: bool = False) -> None:
    """`ready()` is called once the daemon serves."""
    from groupd.coordinator.logs import lasting, log_loop_errors

    manager, stop = ServiceManager(), asyncio.Event()
    loop = asyncio.get_running_loop()
    log_loop_errors(loop)
    stop_signals.STOP.on_request(lambda: loop.call_soon_threadsafe(stop.set))
    if until_stdin_ends:
        _at_end_of_stdin(stop_signals.STOP.ask)
    if not await _started(daemon, stop):
        return
    collector.serve()
    try:
        ready()
        if daemon.has_certificates:
            loop.add_signal_handler(signal.SIGHUP, daemon.reload_certificates)
        print(_ready_line(daemon), file=lasting(sys.stdout), flush=True)
        manager.ready()
        await _until(stop, daemon)
    finally:
        manager.stopping()
        stopping = asyncio.ensure_future(daemon.stop())
        await _in_time(stopping)
        await stopping


def _ready_line(daemon: Served) -> str:
    """Returns the line that says where the daemon listens. The first Kafka listener is called
    `kafka`; further ones have their names in lower case."""
    (_, first), *more = daemon.kafka_addresses.items()
    places = [("kafka", first), *((name.lower(), place) for name, place in more)]
    places.append(("admin", daemon.admin_address))
    return " ".join(["groupd ready", *(f"{name}={address_text(*place)}" for name, place in places)])


async def _in_time(stopping: asyncio.Future[None]) -> None:
    """Waits until `stopping` has ended, in success or error. If it takes too long, exits at
    once."""
    done, _ = await asyncio.wait({stopping}, timeout=SHUTDOWN_LIMIT_S)
    if not done:
        print("groupd: shutdown took too long; stopped hard", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)


def _at_end_of_stdin(call: Callable[[], object]) -> None:
    """Calls `call` at the end of stdin. A thread reads stdin, because an event loop cannot wait for
    every kind of stdin."""

    def read() -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        with suppress(RuntimeError):  # the loop has already ended
            call()

    threading.Thread(target=read, name="groupd-stdin", daemon=True).start()


async def _until(stop: asyncio.Event, daemon: Served) -> None:
    """Waits for a signal. Raises DaemonFailed if another daemon takes the store over: it owns the
    groups and offsets now, and the state of this daemon is out of date."""
    stopping = asyncio.ensure_future(stop.wait())
    losing = asyncio.ensure_future(daemon.lost())
    await asyncio.wait({stopping, losing}, return_when=asyncio.FIRST_COMPLETED)
    if losing.done() and not stopping.done():
        stopping.cancel()
        raise DaemonFailed(losing.result())
    losing.cancel()


async def _started(daemon: Served, stop: asyncio.Event) -> bool:
    """Starts the daemon. If a stop is requested first, cancels the start and returns False."""
    starting = asyncio.ensure_future(daemon.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await _in_time(starting)
        if starting.cancelled():
            import structlog

            structlog.get_logger("groupd.daemon").info("stopped")
            return False
    await starting
    return True
