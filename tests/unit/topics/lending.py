"""An invented feature of the data plane, of nothing but what it offers to features.

A desk lends the records of a partition, one after the other, each to one member for a minute. A
request brings records back, which rides on it, and borrows one of each partition of its session, or
waits until there is one. It is Kafka's ShareFetch with nearly everything left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.data_routes import DataRoute
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.fetch_reading import read_log
from groupd.coordinator.topics.long_polls import WatchedPosition
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partition_states import PartitionState
from groupd.coordinator.topics.sessions import NEW_SESSION_EPOCH, ReaderSession, Sessions, TargetKey
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import parse_header
from groupd.protocol.schema import struct
from groupd.protocol.wire.registry import api

LENT_MS = 60_000
NOT_KNOWN, NOT_YOUR_TURN = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH


class Borrow(Struct, frozen=True):
    """`back`: (topic, partition, offset) of records that are brought back."""

    desk: str
    member: str
    epoch: int
    partitions: tuple[tuple[str, int], ...] = ()
    forgotten: tuple[tuple[str, tuple[int, ...]], ...] = ()
    back: tuple[tuple[str, int, int], ...] = ()
    max_wait_ms: int = 0


class Lent(Struct, frozen=True):
    partition: int
    offset: int
    records: bytes


class Borrowed(Struct, frozen=True):
    """`back`: the codes of what was brought back."""

    error: ErrorCode = ErrorCode.NONE
    back: tuple[ErrorCode, ...] = ()
    lent: tuple[Lent, ...] = ()


class Loans(PartitionState):
    """What is lent of one partition: a `Watchable`, and soft state with timers."""

    def __init__(self, partition: PartitionLog, clock: Clock) -> None:
        super().__init__(partition, clock)
        self.clock = clock
        self.next_offset = partition.start_offset
        self.returned: list[int] = []
        self.lent: dict[int, str] = {}
        self.returns = 0
        self.waiters: set[asyncio.Event] = set()

    @property
    def closed(self) -> bool:
        return self.partition.closed

    @property
    def position(self) -> int:
        return self.partition.high_watermark + self.returns

    def add_waiter(self, event: asyncio.Event) -> None:
        self.partition.add_waiter(event)
        self.waiters.add(event)

    def remove_waiter(self, event: asyncio.Event) -> None:
        self.partition.remove_waiter(event)
        self.waiters.discard(event)

    @property
    def free(self) -> int:
        """What is lent next."""
        return self.returned[0] if self.returned else self.next_offset

    def lend(self, found: Lent, member: str) -> bool:
        """False if another one was quicker, or the partition is not led here any more."""
        offset = found.offset
        if self.closed or offset != self.free:
            return False
        if self.returned:
            self.returned.remove(offset)
        else:
            self.next_offset = offset + 1
        self.lent[offset] = member
        self.deadlines.set(("loan", member, offset), self.clock.monotonic_ms() + LENT_MS)
        self.arm()
        return True

    def bring_back(self, offset: int, member: str) -> None:
        if self.lent.get(offset) != member:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE)
        del self.lent[offset]
        self.deadlines.cancel(("loan", member, offset))

    def expire(self, key: DeadlineKey, now: Instant) -> None:
        _, _, offset = key
        del self.lent[offset]
        self.returned.append(offset)
        self.returns += 1
        for event in self.waiters:
            event.set()

    def dropped(self) -> None:
        self.lent.clear()


class LoanTarget:
    """A partition in the session of a member. It is told of when there is something."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition

    @property
    def key(self) -> TargetKey:
        return self.topic, self.partition

    def named_again(self, by: LoanTarget) -> None:
        pass

    def update(self, answer: Lent) -> bool:
        return bool(answer.records)


Key = tuple[str, str]


class LoanSession(ReaderSession[Key, LoanTarget]):
    """By desk and member. It ends with the connection of its member."""

    __slots__ = ("stay",)

    stay: Callable[[], None]


class LoanSessions(Sessions[LoanSession]):
    """Nobody has to go for a new one."""

    unknown, wrong_epoch = NOT_KNOWN, NOT_YOUR_TURN


class Begun(Struct, frozen=True):
    session: LoanSession
    epoch: int
    until_ms: int
    back: tuple[ErrorCode, ...]


class LoanAttempt:
    """One look at all partitions of a session."""

    def __init__(self) -> None:
        self.size = 0
        self.complete = False
        self.watched: list[WatchedPosition] = []
        self.found: list[tuple[LoanTarget, Loans, Lent]] = []


class Desk:
    """`replies`: what clients were sent."""

    def __init__(self, plane: DataPlane, clock: Clock, slots: int = 10) -> None:
        self.plane = plane
        self.states = plane.keep_states(lambda partition: Loans(partition, clock))
        self.sessions = LoanSessions(slots, 100)
        self.replies: list[Borrowed] = []
        self.api = api(
            999,
            "0",
            "none",
            struct(Borrow, ""),
            struct(Borrowed, ""),
            lambda request, code, message: Borrowed(code),
            write=lambda writer, reply: self.replies.append(reply),
        )
        self.route = DataRoute(self.bring_back, self.borrow)

    async def loans(self, topic: str, partition: int) -> Loans:
        found = self.plane.partitions.resolve_name(topic, partition)
        return self.states.of(await self.plane.partitions.open(found, partition))

    async def bring_back(self, context: RequestContext, request: Borrow) -> Begun:
        pace = self.plane.work.pace()
        now_ms = self.plane.now().monotonic_ms
        named: dict[TargetKey, LoanTarget] = {one: LoanTarget(*one) for one in request.partitions}
        key = request.desk, request.member
        if request.epoch == NEW_SESSION_EPOCH:
            session = self._open(context, key, named, now_ms)
            epoch = session.epoch
        else:
            session = self.sessions.find(key, request.epoch)
            epoch = self.sessions.take_epoch(session)
            await self.sessions.change(session, named, request.forgotten, pace)
        codes = []
        for topic, partition, offset in request.back:
            try:
                (await self.loans(topic, partition)).bring_back(offset, request.member)
                codes.append(ErrorCode.NONE)
            except ApiError as error:
                codes.append(error.code)
        return Begun(session, epoch, now_ms + request.max_wait_ms, tuple(codes))

    def _open(
        self, context: RequestContext, key: Key, named: dict[TargetKey, LoanTarget], now_ms: int
    ) -> LoanSession:
        if (old := self.sessions.get(key)) is not None:
            self.sessions.end(old)
            old.stay()
        if not self.sessions.make_room(len(named), now_ms):
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        session = LoanSession(key, named)
        self.sessions.add(session)
        session.stay = context.token.on_disconnect(lambda: self.sessions.end(session))
        return session

    async def borrow(self, context: RequestContext, request: Borrow, begun: Begun) -> Borrowed:
        pace = self.plane.work.pace()
        session = begun.session

        async def look(room: int) -> LoanAttempt:
            attempt = LoanAttempt()
            for target in list(session.targets.values()):
                loans = await self.loans(target.topic, target.partition)
                await self._lend(loans, target, room, attempt)
            return attempt

        attempt = await self.plane.long_polls.poll(
            look, context.token, min_bytes=1, max_bytes=1000, until_ms=begun.until_ms, pace=pace
        )
        lent = [
            (target, one) for target, loans, one in attempt.found if loans.lend(one, request.member)
        ]
        new = await self.sessions.changed_answers(session, begun.epoch, lent, pace)
        return Borrowed(back=begun.back, lent=tuple(one for _, one in new))

    @staticmethod
    async def _lend(loans: Loans, target: LoanTarget, room: int, attempt: LoanAttempt) -> None:
        seen, offset = loans.position, loans.free
        part = await read_log(loans.partition, offset, min(room, 1), 0, whole_first=True)
        if part.records:
            first = parse_header(part.records).base_offset
            attempt.found.append((target, loans, Lent(target.partition, first, part.records)))
            attempt.size += len(part.records)
        attempt.watched.append((loans, seen))
