"""`groupd serve`: runs the daemon until a signal. Its flags are in `serve_command`, which is not
loaded when `plain_flags` can read the command line."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from groupd.coordinator.cli import stop_signals
from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.parse import build_config, host_port, one_of, real_port, topic
from groupd.coordinator.failures import DaemonFailed
from groupd.coordinator.runtime import collector

if TYPE_CHECKING:
    from groupd.coordinator.cli.controlled import ControlledDaemon
    from groupd.coordinator.daemon import Daemon, DaemonOptions
    from groupd.coordinator.workers.hosting import WorkerOptions

SHUTDOWN_LIMIT_S = 4.5
"""Seconds after which a shutdown is cut off; groupd promises to stop within 5 s."""


def serve(
    *,
    listen: str = "127.0.0.1:9092",
    advertised: str | None = None,
    admin: str = "127.0.0.1:9644",
    data_dir: Path = Path("./groupd-data"),
    store: str | None = None,
    topics: Sequence[str] | None = None,
    config: Path | None = None,
    sets: Sequence[str] | None = None,
    profile: str = "default",
    workers: int = 1,
    control: bool = False,
    control_anywhere: bool = False,
    record: Path | None = None,
    record_max: int = 1024,
    until_stdin_ends: bool = False,
    log_format: str = "text",
    log_level: str = "info",
) -> None:
    """Run the daemon; returns when it has stopped. Raises UsageError. Exits with code 1 when
    another daemon has taken over the store."""
    # Imported late: usage errors do not need it.
    from groupd.coordinator.daemon import CannotStart, Daemon, DaemonOptions
    from groupd.storage.log import StoreRefused

    _set_up_log(log_format, log_level)
    options = DaemonOptions(
        listen=host_port(listen, "--listen"),
        advertised=real_port(advertised, "--advertised") if advertised else None,
        admin=host_port(admin, "--admin"),
        data_dir=data_dir,
        store_url=store,
        topics=tuple(topic(item) for item in topics or ()),
        config=build_config(config, sets or (), profile),
        workers=_workers(workers, log_format, log_level, _alone(record, control=control)),
    )
    try:
        recording = None if record is None else (record, record_max << 20)
        if control:
            _serve(_controlled(options, control_anywhere, recording), until_stdin_ends)
        elif recording is not None:
            _serve(_recorded(options, *recording), until_stdin_ends)
        else:
            _serve(Daemon(options), until_stdin_ends)
    except (CannotStart, StoreRefused) as error:
        raise UsageError(str(error)) from None
    stop_signals.ignore()


def _set_up_log(log_format: str, log_level: str) -> None:
    from groupd.coordinator.server.logs import configure_logging

    one_of(log_format, "--log-format", ("text", "json"))
    one_of(log_level, "--log-level", ("debug", "info", "warning", "error"))
    configure_logging(log_format, log_level)


def _alone(record: Path | None, *, control: bool) -> str | None:
    recorded = "--record" if record is not None else None
    return "--control" if control else recorded


def _workers(
    count: int, log_format: str, log_level: str, alone: str | None
) -> WorkerOptions | None:
    """The options of the workers; None = one process. `alone`: a flag that is only for one
    process."""
    if count == 1:
        return None
    if alone is not None:
        raise UsageError(f"{alone} with --workers: it is for one process only")
    from groupd.coordinator.workers.hosting import WorkerOptions

    return WorkerOptions(count, log_format, log_level)


def _controlled(
    options: DaemonOptions, anywhere: bool, recording: tuple[Path, int] | None
) -> ControlledDaemon:
    from groupd.coordinator.cli.controlled import ControlledDaemon

    return ControlledDaemon(options, anywhere=anywhere, recording=recording)


def _recorded(options: DaemonOptions, path: Path, bytes_max: int) -> Daemon:
    from groupd.coordinator.cli.recorded import RecordedDaemon

    return RecordedDaemon(options, path, bytes_max)


def _serve(daemon: Daemon | ControlledDaemon, until_stdin_ends: bool = False) -> None:
    import uvloop

    if until_stdin_ends and sys.stdin is None:
        # Descriptor 0 would belong to the next file that is opened.
        raise UsageError("--until-stdin-ends: stdin is closed; start groupd with a pipe there")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_run(daemon, until_stdin_ends))
        except DaemonFailed as error:
            print(f"groupd: {error}: stopped", file=sys.stderr)
            sys.exit(1)


async def _run(daemon: Daemon | ControlledDaemon, until_stdin_ends: bool = False) -> None:
    from groupd.coordinator.server.logs import lasting

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop_signals.STOP.on_request(lambda: loop.call_soon_threadsafe(stop.set))
    if until_stdin_ends:
        _at_end_of_stdin(stop_signals.STOP.ask)
    if not await _started(daemon, stop):
        return
    collector.serve()
    try:
        kafka, admin = daemon.kafka_address, daemon.admin_address
        ready = f"groupd ready kafka={_address(kafka)} admin={_address(admin)}"
        print(ready, file=lasting(sys.stdout), flush=True)
        await _until(stop, daemon)
    finally:
        stopping = asyncio.ensure_future(daemon.stop())
        await _in_time(stopping)
        await stopping


async def _in_time(stopping: asyncio.Future[None]) -> None:
    """Wait for the end of `stopping`, with or without an error. If it takes too long, exit at
    once."""
    done, _ = await asyncio.wait({stopping}, timeout=SHUTDOWN_LIMIT_S)
    if not done:
        print("groupd: shutdown took too long; stopped hard", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)


def _at_end_of_stdin(call: Callable[[], object]) -> None:
    """Call `call` at the end of stdin. Reads on a thread, as an event loop cannot wait for every
    kind of stdin."""

    def read() -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        with suppress(RuntimeError):  # the loop has already ended
            call()

    threading.Thread(target=read, name="groupd-stdin", daemon=True).start()


async def _until(stop: asyncio.Event, daemon: Daemon | ControlledDaemon) -> None:
    """Wait for a request to stop. Raises DaemonFailed if another daemon takes over the store: that
    one serves the groups and offsets now, and what this one remembers is out of date."""
    stopping = asyncio.ensure_future(stop.wait())
    losing = asyncio.ensure_future(daemon.lost())
    await asyncio.wait({stopping, losing}, return_when=asyncio.FIRST_COMPLETED)
    if losing.done() and not stopping.done():
        stopping.cancel()
        raise DaemonFailed(losing.result())
    losing.cancel()


async def _started(daemon: Daemon | ControlledDaemon, stop: asyncio.Event) -> bool:
    """Start the daemon. Returns False if it was asked to stop before it was started; that also ends
    a long load at once."""
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


def _address(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
