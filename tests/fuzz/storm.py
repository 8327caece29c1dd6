"""Streams of frames at a started broker, over some connections at once, as fast as it takes them.

`python -m tests.fuzz.storm ORDER` prints a line with a `Storm` every second, and the last one once
its standard input ends. What was sent shortly before something is wrong is kept in a folder.
"""

from __future__ import annotations

import random
import select
import selectors
import sys
import time
from collections import Counter, deque
from pathlib import Path

import msgspec

from tests.fuzz import corpus
from tests.fuzz.logins import Login, login
from tests.fuzz.mutation import Mutator, frames_of
from tests.fuzz.seeds import Known, Seeds
from tests.fuzz.talk import WEIGHTS, Talk, Way, Wrong
from tests.support.raw import api_versions

EACH = 12
"""Valid requests of every version, to begin with."""
MOST_FRAMES = 120
PATIENCE_S = 1.0
"""A connection that waits by right for so long makes place for the next one."""
HANGS_S = 60.0
"""No machine is so slow that a frame without a right to wait takes longer."""
RECENT = 400
PRINT_EVERY_S = 1.0
POLL_S = 0.2


class Order(msgspec.Struct, frozen=True):
    """`finds`: the folder for what went wrong; `streams`: a file with streams to begin with, beside
    the kept ones. `topic_ids`: hexadecimal, by name. `sasl_port`: half of the connections go there;
    0 is none."""

    host: str
    port: int
    seed: int
    connections: int
    finds: str
    topic_ids: dict[str, str]
    streams: str = ""
    sasl_port: int = 0


class Storm(msgspec.Struct):
    """What a process has done so far. `frames`: sent; `judged`: those that were answered or have
    ended their connection; `survived`: new ones that were
    answered; `keys`: judged, by API key; `parked`: connections that we have
    closed because a request waited by right; `wrong`: broken words of the broker."""

    frames: int = 0
    judged: int = 0
    answered: int = 0
    connections: int = 0
    survived: int = 0
    ended: int = 0
    parked: int = 0
    bytes: int = 0
    keys: dict[int, int] = {}
    ways: dict[str, int] = {}
    wrong: list[str] = []


class Stormer:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._chance = random.Random(order.seed)
        # The same seeds in every process: what differs is what becomes of them.
        pool = Seeds(random.Random(1)).every_version(EACH)
        more = corpus.read(Path(order.streams)) if order.streams else []
        for stream in corpus.kept() + more:
            pool += frames_of(stream)[0]
        self._mutator = Mutator(self._chance, pool)
        self._known = Known({k: bytes.fromhex(v) for k, v in order.topic_ids.items()})
        self._selector = selectors.DefaultSelector()
        self._talks: dict[Talk, float] = {}
        """Each with the time of its last progress."""
        self._fresh: dict[Talk, list[tuple[int, bytes]]] = {}
        """The frames of each that were never sent before, with their correlation ids."""
        self._recent: deque[tuple[str, bytes]] = deque(maxlen=RECENT)
        self._keys: Counter[int] = Counter()
        self.done = Storm()

    def run(self) -> None:
        printed = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            self._fill()
            self._turn()
            now = time.monotonic()
            if now - printed >= PRINT_EVERY_S:
                printed = now
                self._look_for_the_late(now)
                self.print()
        for talk in list(self._talks):
            self._finish(talk)
        self.print()

    def print(self) -> None:
        self.done.keys = dict(self._keys)
        print(msgspec.json.encode(self.done).decode(), flush=True)

    def _fill(self) -> None:
        while len(self._talks) < self._order.connections:
            stream, fresh = self._mutator.stream(self._chance.randint(1, MOST_FRAMES))
            stream += api_versions(self._chance.getrandbits(31))
            way = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            port, begin = self._order.port, Login(b"", True)
            if self._order.sasl_port and self._chance.random() < 0.5:
                port, begin = self._order.sasl_port, login(self._chance, self._mutator)
                stream = begin.data + stream
            address = (self._order.host, port)
            talk = Talk(address, stream, self._known, way, self._chance, sound=begin.sound)
            self._recent.append((way.value, stream))
            self._fresh[talk] = fresh
            self._talks[talk] = time.monotonic()
            self._selector.register(talk.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, talk)
            self.done.connections += 1
            self.done.bytes += len(stream)

    def _turn(self) -> None:
        now = time.monotonic()
        for key, events in self._selector.select(POLL_S):
            talk: Talk = key.data
            self._talks[talk] = now
            try:
                if events & selectors.EVENT_READ:
                    talk.read()
                if talk.closed:
                    self._finish(talk)
                    continue
                more = talk.write()
            except Wrong as error:
                self._wrong(talk, str(error))
                continue
            if talk.done:
                self._finish(talk)
            else:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0)
                if wanted != key.events:
                    self._selector.modify(talk.socket, wanted, talk)

    def _look_for_the_late(self, now: float) -> None:
        for talk, since in list(self._talks.items()):
            if now - since > PATIENCE_S and talk.waits_by_right:
                self.done.parked += 1
                self._finish(talk)
            elif now - since > HANGS_S:
                front = talk.expected[0] if talk.expected else None
                self._wrong(talk, f"no answer and no end within {HANGS_S} s: {front}")

    def _wrong(self, talk: Talk, what: str) -> None:
        self.done.wrong.append(f"{what} ({talk.way.value})")
        corpus.write(
            Path(self._order.finds) / f"wrong-{self._order.seed}-{len(self.done.wrong)}.fuzz",
            [talk.stream, *(stream for _, stream in self._recent)],
        )
        self._finish(talk)

    def _finish(self, talk: Talk) -> None:
        del self._talks[talk]
        self.done.ended += talk.closed and talk.way is not Way.RESET
        self._selector.unregister(talk.socket)
        self.done.frames += talk.frames
        self.done.answered += len(talk.answered)
        self.done.judged += len(talk.keys)
        self.done.ways[talk.way.value] = self.done.ways.get(talk.way.value, 0) + 1
        self._keys.update(talk.keys)
        answered = set(talk.answered)
        for correlation, frame in self._fresh.pop(talk):
            if correlation.to_bytes(4, "big") in answered:
                self.done.survived += 1
                self._mutator.survived(frame)
        talk.close()


def main() -> None:
    Stormer(msgspec.json.decode(sys.argv[1].encode(), type=Order)).run()


if __name__ == "__main__":
    main()
