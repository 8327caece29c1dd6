"""One limit for the memory that all connections hold, and a share of it for each connection.

These bytes count: a large frame from the moment that it may be read, requests under way with an
estimate of what their items take, and replies that are not sent yet. One read of a socket brings at
most `FREE_BYTES`, and the connection is not read again before they are worked on.

- The first `FREE_BYTES` of each connection do not count, so small requests need no room.
- A connection may hold an eighth of what is left. So a connection that wants much leaves enough for
  others, and the more connections want much, the less each of them gets.
- Short requests may go up to a quarter beyond the limit, the shorter the further. So longer ones do
  not keep them waiting.
- A connection that needs more waits in line until bytes are given back. One connection at a time
  may hold more than its share. So a request that is larger than any share is served too, and
  requests that have begun cannot wait for each other for ever.
- While some connections wait, none may hold memory for long. A Fetch that waits for records is
  answered with what there is. A client has `OVERDUE_MS` to finish sending its frame, or to read
  its replies, and a request has `OVERDUE_MS` to get what it waits for (a JoinGroup the other
  members). Each second, of the connections that take longer, the one that holds most is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from weakref import finalize

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle

FREE_BYTES = 16 * 1024
"""How many bytes of each connection do not count."""

SMALL = 4 * 1024
"""A request of up to this many bytes may always start when nothing else of its connection is under
way."""

SHORT = 128 * 1024
"""Requests that need fewer bytes than this may go up to a quarter beyond the limit. So requests of
usual size go on when large ones have taken everything."""

ITEM_BYTES = 300
"""Bytes that an item of a request takes, with those that its answer takes until it is encoded. The
bytes of a request are in memory twice: as the frame and the message, or as the message and the
records for the log."""

REQUESTS_PER_TURN = 256
"""How many waiting requests are tried in one turn of the loop."""

OVERDUE_MS = 30_000
LOOK_MS = 1000
NO_LIMIT = 1 << 62
_SHARES = 8


def limit_of(config: CoordinatorConfig) -> int:
    """The limit of the budget in bytes. It is never below the size of the largest request."""
    if config.queued_max_request_bytes < 0:
        return NO_LIMIT
    return max(config.queued_max_request_bytes, config.socket_request_max_bytes)


def largest_share(config: CoordinatorConfig) -> int:
    """The most bytes that a connection may hold while no other connection holds any."""
    return limit_of(config) // _SHARES


class WaitingForBytes(Struct, frozen=True, eq=False):
    """A request, frame or reply that waits until its connection may hold `more` bytes. Then `retry`
    is called. `begun`: see `Account.may_continue`."""

    account: Account
    more: int
    begun: bool
    retry: Callable[[], None]


class ByteBudget:
    """The memory that all connections hold, in bytes. `clock`: the clock of the sockets."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self.limit = limit
        self.used = 0
        self.most = 0
        """The most that was used since the last reset of this value."""
        self.clock = clock
        self._holding: dict[Account, int] = {}
        """The accounts that count bytes, and when the count of each last changed."""
        self._line: dict[WaitingForBytes, bool] = {}
        self._over_share: Account | None = None
        """The connection that may hold more than its share; None: no connection may."""
        self._unchecked = 0
        """How many entries of the line have not been tried since bytes were given back."""
        self._scheduled = False
        self._timer: TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many frames, requests and replies wait for room."""
        return len(self._line)

    def left_for(self, account: Account) -> int:
        """How many more bytes the connection may hold; below 0 if it holds too much."""
        left = self.limit - self.used + account.counted
        return left // _SHARES - account.counted

    def fits(self, account: Account, more: int, *, begun: bool, in_turn: bool = False) -> bool:
        """Whether the connection may hold `more` bytes. `begun`: see `Account.may_continue`.
        `in_turn`: it has waited in line."""
        if more <= self.left_for(account):
            return True
        if not begun and more < SHORT:
            over_limit = self.limit // 4 * (SHORT - more) // SHORT
            if self.used + more <= self.limit + over_limit:
                return True
        in_turn = in_turn or begun or not self._line
        room = begun or min(more, self.limit) <= self.limit - self.used
        if self._over_share is None and in_turn and room:
            self._over_share = account
        return self._over_share is account

    def line_up(
        self, account: Account, more: int, retry: Callable[[], None], *, begun: bool
    ) -> None:
        """Calls `retry` once `fits` with the same arguments is true."""
        self._line[WaitingForBytes(account, more, begun, retry)] = True
        if self._timer is None:
            self._look_later()

    def serve(self) -> None:
        """Retries what waits in line, in order, as far as there is room."""
        self._unchecked = len(self._line)
        self._serve_some()

    def _serve_some(self) -> None:
        self._scheduled = False
        self._check_over_share()
        for waiting in list(islice(self._line, min(self._unchecked, REQUESTS_PER_TURN))):
            self._unchecked -= 1
            del self._line[waiting]
            if waiting.account.closed:
                continue
            if self.fits(waiting.account, waiting.more, begun=waiting.begun, in_turn=True):
                waiting.retry()
            else:
                self._line[waiting] = True
        if self._unchecked > 0:
            open_ones = (waiting.account for waiting in self._line if not waiting.account.closed)
            self._serve_later(next(open_ones, None))

    def _serve_later(self, account: Account | None) -> None:
        """Serves the line in the next turn of the loop to which `account` belongs."""
        if self._line and not self._scheduled and account is not None and account.soon is not None:
            self._scheduled = True
            account.soon(self._serve_some)

    def _check_over_share(self) -> None:
        """Takes the right to hold more than its share from a connection that does not need it any
        more."""
        account = self._over_share
        if account is not None and (not account.counted or self.left_for(account) >= 0):
            self._over_share = None

    def changed(self, account: Account, by: int) -> None:
        """Notes that the count of the connection has changed by `by` bytes."""
        self.used += by
        self.most = max(self.most, self.used)
        if account.counted:
            self._holding[account] = self.clock.monotonic_ms()
        else:
            self._holding.pop(account, None)
        if by > 0 or (not self._line and self._over_share is None):
            return
        self._check_over_share()
        self._unchecked = len(self._line)
        self._serve_later(account)

    def closed(self, account: Account) -> None:
        """Forgets a connection that has ended."""
        if self._over_share is account:
            self._over_share = None
        self._holding.pop(account, None)

    def give_back(self, counted: int) -> None:
        """Frees the bytes that a closed connection still counted."""
        self.used -= counted

    def _look_later(self) -> None:
        self._timer = self.clock.call_at(self.clock.monotonic_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        """Runs each second while connections wait. Has requests that wait for records answered, and
        drops the connection that holds most of those that are overdue."""
        self._timer = None
        for account in list(self._holding):
            if account.on_memory_short is not None:
                account.on_memory_short()
        oldest_ms = self.clock.monotonic_ms() - OVERDUE_MS
        in_line = {waiting.account for waiting in self._line if waiting.begun}
        overdue = [
            account
            for account, changed_ms in self._holding.items()
            if (account.since_ms if account.since_ms >= 0 else changed_ms) <= oldest_ms
            and account not in in_line
        ]
        if overdue:
            max(overdue, key=lambda account: account.counted).drop()
        self.serve()
        if self._line and self._timer is None:
            self._look_later()


class Account:
    """The memory that one connection holds. `soon(callback)` calls back in a later turn of its
    loop, `drop()` ends the connection."""

    __slots__ = (
        "__weakref__",
        "_lined_up",
        "budget",
        "closed",
        "counted",
        "drop",
        "incoming",
        "on_memory_short",
        "since_ms",
        "size",
        "soon",
        "unsent",
    )

    def __init__(
        self,
        budget: ByteBudget,
        soon: Callable[[Callable[[], None]], None],
        drop: Callable[[], None],
    ) -> None:
        self.budget = budget
        self.soon: Callable[[Callable[[], None]], None] | None = soon
        self.drop = drop
        self.size = 0
        """All bytes that the connection holds. The code that changes this calls `settle` if the
        value is, or was, above `FREE_BYTES`."""
        self.counted = 0
        """The part of `size` that counts in the budget."""
        self.incoming = 0
        """The part of `size` for a large frame that is being read, or waits to be started."""
        self.unsent = 0
        """The part of `size` for replies that wait for the client to read."""
        self.since_ms = -1
        """Since when we have waited for the client to send the rest of a frame, or to read its
        replies; -1: we do not wait for it."""
        self.on_memory_short: Callable[[], None] | None = None
        """Called when memory is short: ends the wait of a request that is under way."""
        self.closed = False
        self._lined_up = False

    def settle(self) -> None:
        by = max(0, self.size - FREE_BYTES) - self.counted
        if by:
            self.counted += by
            self.budget.changed(self, by)

    @property
    def left(self) -> int:
        """How many more bytes the connection may hold; below 0 if it holds too much."""
        return self.budget.left_for(self)

    def may_start(self, frame_bytes: int, retry: Callable[[], None]) -> bool:
        """Whether there is room for the request in this frame. (There is if the frame is large: it
        got its room before it was read.) If there is none, `retry` is called once, later."""
        return self.incoming > 0 or self._may_take(2 * frame_bytes, retry)

    def may_receive(self, frame_bytes: int, retry: Callable[[], None]) -> bool:
        """Whether more of a large frame may be read. That needs room for the whole frame, because a
        part of it is of no use. `retry`: as for `may_start`."""
        if not self.incoming:
            if not self._may_take(frame_bytes, retry):
                return False
            self.incoming = frame_bytes
            self.grow(frame_bytes)
            self._wait_for_client()
        return True

    def _may_take(self, more: int, retry: Callable[[], None]) -> bool:
        if self.budget.fits(self, more, begun=False):
            return True
        if not self._lined_up:
            self._lined_up = True
            self.budget.line_up(self, more, partial(self._retry, retry), begun=False)
        return False

    def _retry(self, retry: Callable[[], None]) -> None:
        self._lined_up = False
        retry()

    def may_continue(self, more: int, retry: Callable[[], None]) -> bool:
        """Whether a request that has begun may take `more` bytes, which the caller takes with
        `grow`. If not, `retry` is called later. Such a request holds memory already and must be
        able to end. So one connection at a time may exceed its share for it."""
        if self.budget.fits(self, more, begun=True):
            return True
        self.budget.line_up(self, more, retry, begun=True)
        return False

    def grow(self, by: int) -> None:
        self.size += by
        self.settle()

    # Waiting for the client ---------------------------------------------------------------

    def _wait_for_client(self) -> None:
        if self.since_ms < 0:
            self.since_ms = self.budget.clock.monotonic_ms()

    def arrived(self) -> None:
        """Notes that all of the large frame has come. It counts until its request starts."""
        if not self.unsent:
            self.since_ms = -1

    def started(self) -> None:
        """Stops counting the large frame: its request now counts for itself."""
        self.grow(-self.incoming)
        self.incoming = 0
        self.arrived()

    def set_unsent(self, unsent: int) -> None:
        """Sets how many bytes of replies wait for the client to read; 0: so few that requests may
        start."""
        self.grow(unsent - self.unsent)
        self.unsent = unsent
        if unsent:
            self._wait_for_client()
        elif not self.incoming:
            self.since_ms = -1

    # The end ------------------------------------------------------------------------------

    def close(self, left: int) -> None:
        """Ends the account. `left`: bytes of requests that are still under way. They count until
        the last of these requests, and with it this account, is garbage."""
        self.closed = True
        self.size, self.incoming, self.unsent = left, 0, 0
        self.settle()
        self.budget.closed(self)
        self.soon, self.drop, self.on_memory_short = None, _nothing, None
        if self.counted:
            finalize(self, self.budget.give_back, self.counted).atexit = False


def _nothing() -> None:
    """Stands in for `drop` once the connection has ended."""
