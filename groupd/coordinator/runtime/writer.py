"""Group commit: one task appends all open batches of all logs, in one transaction after the other.

While one transaction is under way the next batches fill; there is no linger timer. Sources are the
journals of the shards and single appends of the data plane. For each `take` a source gets the
result exactly once. If a log is fenced only its own source fails: the other sources of that
transaction are tried again without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.coordinator.runtime.stats import WriterStats
from groupd.storage.log import (
    Append,
    LogError,
    LogFenced,
    LogUnavailable,
    LogUncertain,
    PartitionLogs,
)

log = structlog.get_logger("groupd.writer")

TRANSACTION_BYTES_MAX = 16 * 1024 * 1024
"""If one transaction has this many bytes of payload, further sources wait for the next one."""

WARNING_INTERVAL_NS = 10_000_000_000
"""A store that refuses every write causes one warning in this many ns, not one per request."""


class Source(Protocol):
    """Has batches to append."""

    def take(self) -> list[Append]:
        """Returns the batches to append now, in order. They are in flight until `done`."""
        ...

    def done(self, error: LogError | None) -> None:
        """What was taken is durable (`error` None), or has failed."""
        ...


Taken = tuple[Source, list[Append]]


class _Single:
    """One `append` call of the data plane."""

    __slots__ = ("batches", "future")

    def __init__(self, batches: list[Append], future: asyncio.Future[None]) -> None:
        self.batches = batches
        self.future = future

    def take(self) -> list[Append]:
        return self.batches

    def done(self, error: LogError | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class LogWriter:
    """Collects what all sources append: nothing else calls `PartitionLogs.append`."""

    def __init__(self, logs: PartitionLogs) -> None:
        self._logs = logs
        self._dirty: dict[Source, int] = {}  # when each was marked first, in ns
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._closed = False
        self._flushing = False
        self.stats = WriterStats()
        self.transactions = 0
        self.batches = 0
        self.failures = 0
        self._warned_ns: int | None = None
        self._refusing = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="log-writer")

    async def close(self) -> None:
        """Append what is still waiting, then stop."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        self._closed = True  # set also if the writer was never started

    def mark(self, source: Source) -> None:
        """Take batches from `source` with the next transaction. A closed writer refuses at once."""
        if self._closed:
            _tell(source, LogUnavailable("the writer is closed"))
            return
        if not self._dirty:
            self._wake.set()
        self._dirty.setdefault(source, elapsed_ns())

    def append(self, batches: Sequence[Append]) -> asyncio.Future[None]:
        """Append by group commit what `PartitionLogs.append` would append directly."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.mark(_Single(list(batches), future))
        return future

    @property
    def waiting(self) -> int:
        """How many sources have records that wait for the next transaction."""
        return len(self._dirty)

    @property
    def busy(self) -> bool:
        """Whether records wait or are being appended."""
        return self._flushing or bool(self._dirty)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._flushing = True
            while self._dirty:
                # Requests that have arrived already get into the same transaction, and the store's
                # thread does not start while the loop is busy with them.
                await asyncio.sleep(0)
                await self._flush()
            self._flushing = False
            self._wake.clear()
            if self._closing:
                self._closed = True
                return

    async def _flush(self) -> None:
        """Append in one transaction, or in more if some of its logs are fenced. Every source gets
        the result."""
        taken, waiting_since = self._take()
        started_ns = elapsed_ns()
        while taken:
            fenced = await self._append(taken)
            if fenced is None:
                break
            taken = self._fail_fenced(taken, fenced)
        if waiting_since:
            self._count(waiting_since, started_ns)

    def _take(self) -> tuple[list[Taken], list[int]]:
        """Returns what the marked sources have for one transaction, and since when those of
        coordinators have waited."""
        taken: list[Taken] = []
        waiting_since: list[int] = []
        size = 0
        for source in list(self._dirty):
            if size >= TRANSACTION_BYTES_MAX:
                break
            marked_ns = self._dirty.pop(source)
            try:
                batches = source.take()
            except Exception as error:
                log.exception("batches cannot be taken")
                _tell(source, LogUnavailable(f"{type(error).__name__}: {error}"))
                continue
            for batch in batches:
                size += len(batch.payload)
            taken.append((source, batches))
            if batches and not isinstance(source, _Single):
                waiting_since.append(marked_ns)
        return taken, waiting_since

    def _count(self, waiting_since: Sequence[int], started_ns: int) -> None:
        """Count a transaction that had records of coordinators and is answered now."""
        stats, ended_ns = self.stats, elapsed_ns()
        stats.flushes += 1
        stats.flush.add(ended_ns - started_ns)
        for marked_ns in waiting_since:
            stats.linger.add(started_ns - marked_ns)
            stats.purgatory.add(ended_ns - marked_ns)

    async def _append(self, taken: list[Taken]) -> LogFenced | None:
        """Append all. Returns None if every source got the result; else some logs are fenced, and
        no source got it yet."""
        batches = [batch for _, part in taken for batch in part]
        error: LogError | None = None
        try:
            if batches:
                await self._logs.append(batches)
                self.transactions += 1
                self.batches += len(batches)
                if self._refusing:
                    self._taken_again()
        except LogFenced as fenced:
            self.failures += 1
            if fenced.logs:
                return fenced
            error = fenced
        except LogError as failed:
            error = failed
            self._refused(error)
        except Exception as unexpected:  # noqa: BLE001 - whatever it was, the outcome is unknown
            error = LogUncertain(f"{type(unexpected).__name__}: {unexpected}")
            self._refused(error)
        for source, _ in taken:
            _tell(source, error)
        return None

    def _refused(self, error: LogError) -> None:
        """Log why the store refuses writes. Clients only see an error code, but an operator needs
        the cause (mostly a full disk)."""
        self.failures += 1
        now_ns = elapsed_ns()
        if self._warned_ns is not None and now_ns - self._warned_ns < WARNING_INTERVAL_NS:
            return
        self._warned_ns = now_ns
        self._refusing = True
        log.warning("the store refuses writes", cause=str(error), failures=self.failures)

    def _taken_again(self) -> None:
        self._refusing = False
        log.info("the store takes writes again", failures=self.failures)

    @staticmethod
    def _fail_fenced(taken: list[Taken], fenced: LogFenced) -> list[Taken]:
        rest = []
        for source, batches in taken:
            if any(batch.name in fenced.logs for batch in batches):
                _tell(source, fenced)
            else:
                rest.append((source, batches))
        # A store that names a log without a write in this transaction would cause an endless loop.
        # So all sources fail.
        if len(rest) == len(taken):
            for source, _ in taken:
                _tell(source, fenced)
            return []
        return rest


def _tell(source: Source, error: LogError | None) -> None:
    """Give the result to a source. An error there must not end the writer."""
    try:
        source.done(error)
    except Exception:
        log.exception("the result of an append could not be handled")
