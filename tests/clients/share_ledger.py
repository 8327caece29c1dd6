"""Workers of a share group, and a ledger of what they were given and what became of it.

What a worker does with a record depends on the record alone: most are accepted; `rejects`,
`returns` (released once, then accepted) and `is_poison` (released always) say the others. At the
end every record must be accepted, rejected, or archived after its last delivery.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.clients.share import Delivered, Place, ShareClientError, ShareMember
from tests.support.process import WaitTimeout

LIMIT = 5
"""The default of group.share.delivery.count.limit."""
TERMINAL = ("accept", "reject")


def rejects(offset: int) -> bool:
    return offset % 100 == 11


def returns(offset: int) -> bool:
    return offset % 20 == 3


def is_poison(offset: int) -> bool:
    return offset % 100 == 7


def verdict(record: Delivered) -> str:
    """How a worker acknowledges a record."""
    if is_poison(record.offset) or (returns(record.offset) and record.count == 1):
        return "release"
    return "reject" if rejects(record.offset) else "accept"


@dataclass
class Story:
    """What was told of one record, in the order in which the test heard it."""

    counts: list[int] = field(default_factory=list)
    answered: str = ""
    """The last terminal acknowledgement that the broker has taken."""
    sent: bool = False
    """A terminal acknowledgement was sent. Without an answer, or with an error, it may count."""


class Ledger:
    """The stories of all records; workers write from their threads. `leaders_die`: the leaders of
    partitions are killed, so a client may hand out late what it has got from a dead one."""

    def __init__(self, *, leaders_die: bool) -> None:
        self._leaders_die = leaders_die
        self.stories: dict[Place, Story] = defaultdict(Story)
        self.faults: list[str] = []
        self._doubts: dict[tuple[str, Place], str] = {}
        """By worker and record: a delivery that is a fault if the broker takes its acknowledgement.
        If the broker refuses it, the client was late."""
        self.errors: list[str] = []
        self.changed_at = time.monotonic()
        self._lock = threading.Lock()

    def delivered(self, worker: str, records: Sequence[Delivered]) -> None:
        with self._lock:
            for record in records:
                story = self.stories[record.place]
                goes_back = story.counts and record.count < story.counts[-1]
                if story.answered or goes_back:
                    doubt = f"{worker} got {record} after {story.answered or story.counts}"
                    if self._leaders_die:
                        self._doubts[worker, record.place] = doubt
                    else:
                        self.faults.append(doubt)
                story.counts.append(record.count)
            if records:
                self.changed_at = time.monotonic()

    def sending(self, kind: str, records: Sequence[Delivered]) -> None:
        with self._lock:
            for record in records:
                self.stories[record.place].sent |= kind in TERMINAL

    def taken(self, worker: str, kind: str, records: Sequence[Delivered]) -> None:
        with self._lock:
            for record in records:
                doubt = self._doubts.pop((worker, record.place), None)
                if doubt is not None:
                    self.faults.append(doubt)
                if kind in TERMINAL:
                    self.stories[record.place].answered = kind

    def failed(self, worker: str, error: str) -> None:
        with self._lock:
            self.errors.append(f"{worker}: {error}")

    def unfinished(self, written: set[Place], kills: int) -> list[str]:
        """The records whose end is not known yet. With so many kills a record may have had as many
        deliveries of which no worker has told."""
        with self._lock:
            return [
                f"{place} {self.stories[place]}"
                for place in sorted(written)
                if not self._is_finished(place, self.stories[place], kills)
            ]

    @staticmethod
    def _is_finished(place: Place, story: Story, kills: int) -> bool:
        if is_poison(place[2]):
            return bool(story.counts) and story.counts[-1] >= LIMIT - kills
        return bool(story.answered) or story.sent

    def judge(self, written: set[Place]) -> None:
        """What must hold at the end."""
        assert not self.faults, self.faults
        assert set(self.stories) == written
        for place, story in self.stories.items():
            assert max(story.counts) <= LIMIT, (place, story)
            wanted = "" if is_poison(place[2]) else "reject" if rejects(place[2]) else "accept"
            assert story.answered in ("", wanted), (place, story)

    def summary(self) -> str:
        """How many records were delivered how often, for the log of the test."""
        deliveries: dict[int, int] = defaultdict(int)
        for story in self.stories.values():
            deliveries[len(story.counts)] += 1
        open_ends = sum(story.sent and not story.answered for story in self.stories.values())
        return f"deliveries {dict(sorted(deliveries.items()))}, unanswered {open_ends}"


class LedgerWorker(threading.Thread):
    """Lets one member work until told to stop, or until its process is killed."""

    def __init__(self, name: str, member: ShareMember, ledger: Ledger) -> None:
        super().__init__(name=name, daemon=True)
        self.member = member
        self.polled = 0
        self._ledger = ledger
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except (ShareClientError, WaitTimeout, BrokenPipeError) as error:
                if not self.member.process.running:
                    return
                self._ledger.failed(self.name, str(error))
        self.member.close()

    def _work(self) -> None:
        records = self.member.poll(1.0)
        self._ledger.delivered(self.name, records)
        self.polled += len(records)
        if not records:
            return
        verdicts = defaultdict[str, list[Delivered]](list)
        for record in records:
            verdicts[verdict(record)].append(record)
        for kind, chosen in verdicts.items():
            self._ledger.sending(kind, chosen)
            self.member.acknowledge(kind, chosen)
        outcome = self.member.commit()
        for kind, chosen in verdicts.items():
            good = [one for one in chosen if outcome.get(one.place[:2], "no answer") is None]
            self._ledger.taken(self.name, kind, good)
        for error in filter(None, outcome.values()):
            self._ledger.failed(self.name, error)

    def kill(self) -> None:
        """SIGKILL of the member's process."""
        self.member.kill()

    def stop(self) -> None:
        """The member leaves after its present poll."""
        self._stopping.set()
        self.join(90)
        assert not self.is_alive(), self.member.process.output()
