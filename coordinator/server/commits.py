"""The last OffsetCommit of a connection, in case it comes again with other offsets.

It is worth the making only for a connection that repeats itself, so a form is made of the second
accepted commit of one size, and no more after some that nothing ever fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupd.coordinator.runtime.commit_lease import ACCEPTED, CommitLease
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.server.connection_stats import ApiVersion, ConnectionStats
from groupd.coordinator.server.slot import Slot
from groupd.protocol.wire.api import offset_commit
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.commit_form import PARTITIONS_MAX, CommitForm
from groupd.protocol.wire.header import (
    RequestHeader,
    parse_request_header,
    reply_frame,
    reply_header_version,
)

if TYPE_CHECKING:
    from groupd.coordinator.server.connection import Connection

KEPT_MAX = 100_000
"""Partitions in the forms of all connections, a form itself counting as `FORM_COST`: some 30 MB.
Beyond it commits are decoded as any request."""

FORM_COST = 8

FUTILE_MAX = 3
"""Forms in a row that nothing fitted."""

_API = offset_commit.API


class StoredCommit:
    """`head` and `tail`: the reply before and behind the correlation id; `header`: that of the
    request which `form` was made of."""

    __slots__ = ("api", "form", "head", "header", "lease", "tail", "used")

    def __init__(self, form: CommitForm, lease: CommitLease, header: RequestHeader) -> None:
        commit, version = lease.commit, header.api_version
        frame = reply_frame(
            0, reply_header_version(_API, version), _API.encode(commit.reply, version)
        )
        self.form = form
        self.lease = lease
        self.header = header
        self.head = frame[:4]
        self.tail = frame[8:]
        self.api: ApiVersion = (_API.key, version)
        self.used = False


class CommitTable:
    """Of one connection. `size`: of requests that may be in it, in bytes."""

    __slots__ = ("_futile", "_last_size", "_stats", "_stored", "size")

    def __init__(self, stats: ConnectionStats) -> None:
        self._stats = stats
        self._stored: StoredCommit | None = None
        self._last_size = 0
        self._futile = 0
        self.size = -1

    def again(self, connection: Connection, frame: bytes) -> CommitSlot | None:
        """The slot of a commit that is under way; None: it is to be handled as any request."""
        stored = self._stored
        offsets = stored.form.offsets(frame) if stored is not None else None
        if stored is None or offsets is None:
            return None
        stored.used = True  # whatever becomes of it: it did come again
        slot = CommitSlot(connection, frame, stored)
        waiter = Waiter(stored.lease.commit.request, _API.failure, slot.resolve)
        slot.token = stored.lease.again(offsets, waiter)
        if slot.token is None:
            return None
        self._stats.commits_repeated += 1
        self._stats.requests[stored.api] += 1
        return slot

    def offer(self, frame: bytes, header: RequestHeader, lease: CommitLease) -> None:
        """`frame` has been accepted as `lease`, and may be so again."""
        came_again = len(frame) == self._last_size
        self._last_size = len(frame)
        if not came_again:
            return
        self.clear()
        if self._futile >= FUTILE_MAX:
            return
        version = header.api_version
        places = offset_commit.offset_places(frame, header.body_offset, version)
        cost = FORM_COST + len(places)
        if len(places) > PARTITIONS_MAX or self._stats.commit_forms + cost > KEPT_MAX:
            return
        if not lease.commit.prepare():
            return
        self._stored = StoredCommit(CommitForm(frame, places), lease, header)
        self._stats.commit_forms += cost
        self.size = len(frame)

    def leave_alone(self) -> None:
        """Every commit is to be handled as any request."""
        self._futile = FUTILE_MAX

    def clear(self) -> None:
        """Also for a connection that ends."""
        stored, self._stored = self._stored, None
        if stored is not None:
            self._futile = 0 if stored.used else self._futile + 1
            self._stats.commit_forms -= FORM_COST + stored.form.count
            self.size = -1


class CommitSlot(Slot):
    """The place of the reply to a commit that came again."""

    __slots__ = ("_stored",)

    def __init__(self, connection: Connection, request_frame: bytes, stored: StoredCommit) -> None:
        super().__init__(connection, _API, stored.header, request_frame)
        self._stored = stored

    def resolve(self, reply: object, copies: int = 1) -> None:
        if reply is not ACCEPTED:
            self.header = parse_request_header(self.request_frame, API_BY_KEY)
            super().resolve(reply, copies)
        elif not self.connection.closed:
            stored = self._stored
            self.frame = stored.head + self.request_frame[4:8] + stored.tail
            self.done = True
            self.connection.slot_done(self)
