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
from tests.fuzz.lines import Line, Spoil, TlsLine, Wrong
from tests.fuzz.listeners import PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL, WEIGHTS, Doors, contexts
from tests.fuzz.logins import WITHOUT, Logins
from tests.fuzz.mutation import Mutator, Stream, frames_of
from tests.fuzz.raw_frames import raw_frames
from tests.fuzz.raw_records import RawTlsLine
from tests.fuzz.seeds import Known, Seeds
from tests.fuzz.talk import WEIGHTS as WAYS
from tests.fuzz.talk import Script, Talk, Way, one_stream, request_in
from tests.support.raw import api_versions

EACH = 12
"""The pool begins with this many valid requests of every version."""
MOST_FRAMES = 120
MOST_RESTING = 8
"""The most connections that do nothing for some seconds, beside the others."""
SPOILT = 0.25
"""The part of the TLS connections that is spoilt."""
RAW = 0.12
"""The part of the connections with raw streams."""
HANGS_S = 60.0
"""No machine is so slow that a frame without a right to wait takes longer."""
RECENT = 400
PRINT_EVERY_S = 1.0
LOOK_EVERY_S = 0.1
POLL_S = 0.05
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Order(msgspec.Struct, frozen=True):
    """`finds`: the folder for what went wrong; `streams`: a file with streams to begin with, beside
    the kept ones; `topic_ids`: in hexadecimal, by name."""

    host: str
    doors: Doors
    seed: int
    connections: int
    finds: str
    topic_ids: dict[str, str]
    streams: str = ""


class Storm(msgspec.Struct):
    """What a process has done so far. `frames`: sent; `judged`: those that were answered or have
    ended their connection; `fresh`: judged ones that were never sent before, `survived`: those of
    them that were answered; `keys`: judged ones, by API key; `ways`: how connections sent, `doors`:
    where and as whom; `parked`: connections that we have closed because a request waited by right;
    `wrong`: broken words of the broker; `processor_s`: what this process has used."""

    frames: int = 0
    judged: int = 0
    answered: int = 0
    connections: int = 0
    fresh: int = 0
    survived: int = 0
    ended: int = 0
    parked: int = 0
    bytes: int = 0
    keys: dict[int, int] = {}
    ways: dict[str, int] = {}
    doors: dict[str, int] = {}
    wrong: list[str] = []
    processor_s: float = 0.0


class Under(msgspec.Struct):
    """A talk under way. `since`: its last progress; `streams`: those that it sends; `origin`: what
    a raw stream is made of."""

    since: float
    streams: list[Stream]
    ends_count: bool
    """Whether the user may do everything: then a frame that ends the talk is itself at fault."""
    origin: str = ""


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
        for one in pool:
            if request_in(one) is None:
                self._mutator.ended(one)
        self._logins = Logins(self._chance, self._mutator, order.doors.tokens, MOST_FRAMES)
        self._contexts = contexts(order.doors.ca)
        self._known = Known({k: bytes.fromhex(v) for k, v in order.topic_ids.items()})
        self._selector = selectors.DefaultSelector()
        self._talks: dict[Talk, Under] = {}
        self._resting: set[Talk] = set()
        """Those of the talks that rest; they count beside the others."""
        self._recent: deque[tuple[str, bytes]] = deque(maxlen=RECENT)
        self._keys: Counter[int] = Counter()
        self._ways: Counter[str] = Counter()
        self._doors: Counter[str] = Counter()
        self.done = Storm()

    def run(self) -> None:
        self.print()
        printed = looked = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            self._fill()
            self._turn()
            now = time.monotonic()
            if now - looked >= LOOK_EVERY_S:
                looked = now
                self._wake()
                self._look_for_the_late(now)
            if now - printed >= PRINT_EVERY_S:
                printed = now
                self.print()
        for talk in list(self._talks):
            self._finish(talk)
        self.print()

    def print(self) -> None:
        done = self.done
        done.keys, done.ways, done.doors = dict(self._keys), dict(self._ways), dict(self._doors)
        done.processor_s = time.process_time()
        print(msgspec.json.encode(done).decode(), flush=True)

    # Connections --------------------------------------------------------------------------

    def _fill(self) -> None:
        while len(self._talks) - len(self._resting) < self._order.connections:
            chance = self._chance
            door = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if chance.random() < RAW:
                self._fill_raw(door, chance.getrandbits(32))
                continue
            if door in (SASL_PLAINTEXT, SASL_SSL):
                script, kind, streams = self._logins.script(
                    may_rest=len(self._resting) < MOST_RESTING
                )
                self._doors[kind] += 1
            else:
                stream = self._mutator.stream(chance.randint(1, MOST_FRAMES))
                script = one_stream(stream.data + api_versions(chance.getrandbits(31)))
                streams = [stream]
            line = self._line(door)
            self._doors[f"{door}, spoilt" if line.spoilt else door] += 1
            self._begin(line, script, streams)

    def _fill_raw(self, door: str, seed: int) -> None:
        """A connection with a raw stream, with TLS in raw records as well. All of it is made of the
        seed."""
        if door in (SASL_PLAINTEXT, SASL_SSL):
            script, kind, _ = self._logins.raw(raw_frames(seed, WITHOUT), seed)
        else:
            data = raw_frames(seed) + api_versions(seed & 0x7FFFFFFF)
            script, kind = one_stream(data), "raw frames"
        address = (self._order.host, self._order.doors.ports[door])
        if door in (PLAINTEXT, SASL_PLAINTEXT):
            line = Line(address)
        else:
            line = RawTlsLine(address, self._order.doors.ca, seed, wrong=bool(seed & 1))
            kind += f", {'wrong' if line.spoilt else 'raw'} records"
        self._doors[kind] += 1
        self._begin(line, script, [], f", raw stream of seed {seed}")

    def _line(self, door: str) -> Line:
        chance = self._chance
        address = (self._order.host, self._order.doors.ports[door])
        if door in (PLAINTEXT, SASL_PLAINTEXT):
            return Line(address)
        assert door in (SSL, SASL_SSL)
        spoil = Spoil(chance, self._mutator.change) if chance.random() < SPOILT else None
        most = chance.choice((1, 7, 600)) if chance.random() < 0.05 else 1 << 30
        return TlsLine(address, chance.choice(self._contexts), spoil, most)

    def _begin(self, line: Line, script: Script, streams: list[Stream], origin: str = "") -> None:
        way = self._chance.choices(list(WAYS), list(WAYS.values()))[0]
        talk = Talk(line, script, self._known, way, self._chance)
        may = script.probe is None or 0 in script.probe.allowed
        self._talks[talk] = Under(time.monotonic(), streams, may, origin)
        self._selector.register(line.socket, _READ | _WRITE, talk)
        self.done.connections += 1

    def _turn(self) -> None:
        now = time.monotonic()
        for key, events in self._selector.select(POLL_S):
            talk: Talk = key.data
            self._talks[talk].since = now
            try:
                if events & _READ:
                    talk.read()
                self._write(talk)
            except Wrong as error:
                self._wrong(talk, str(error))

    def _write(self, talk: Talk) -> None:
        more = not talk.closed and talk.write()
        if talk.done:
            self._finish(talk)
            return
        wanted = _READ | (_WRITE if more else 0)
        if wanted != self._selector.get_key(talk.line.socket).events:
            self._selector.modify(talk.line.socket, wanted, talk)
        if talk.rests:
            self._resting.add(talk)

    def _wake(self) -> None:
        for talk in [talk for talk in self._resting if not talk.rests]:
            self._resting.discard(talk)
            self._talks[talk].since = time.monotonic()
            self._write(talk)

    def _look_for_the_late(self, now: float) -> None:
        for talk, under in list(self._talks.items()):
            late_s = now - under.since
            if talk in self._resting:
                continue
            if late_s > talk.patience_s and talk.waits_by_right:
                self.done.parked += 1
                self._finish(talk)
            elif late_s > HANGS_S:
                self._wrong(talk, f"no answer and no end within {HANGS_S} s: {talk.state()}")

    def _wrong(self, talk: Talk, what: str) -> None:
        self.done.wrong.append(f"{what} ({talk.way.value}{self._talks[talk].origin})")
        corpus.write(
            Path(self._order.finds) / f"wrong-{self._order.seed}-{len(self.done.wrong)}.fuzz",
            [bytes(talk.sent), *(stream for _, stream in self._recent)],
        )
        self._finish(talk)

    def _finish(self, talk: Talk) -> None:
        under = self._talks.pop(talk)
        self._resting.discard(talk)
        self._selector.unregister(talk.line.socket)
        done = self.done
        done.ended += talk.closed and talk.way is not Way.RESET
        done.frames += talk.frames
        done.bytes += len(talk.sent)
        done.answered += len(talk.answered)
        done.judged += len(talk.keys)
        self._ways[talk.way.value] += 1
        self._keys.update(talk.keys)
        self._recent.append((talk.way.value, bytes(talk.sent)))
        for stream in under.streams:
            self._learn(talk, stream, under.ends_count)
        talk.close()

    def _learn(self, talk: Talk, stream: Stream, ends_count: bool) -> None:
        for correlation in stream.fresh.intersection(talk.answered):
            self.done.fresh += 1
            self.done.survived += 1
            self._mutator.survived(stream.frames[correlation])
        ended_by = talk.ended_by
        if ended_by in stream.fresh:
            self.done.fresh += 1
        elif ends_count and ended_by in stream.frames:
            self._mutator.ended(stream.frames[ended_by])


def main() -> None:
    Stormer(msgspec.json.decode(sys.argv[1].encode(), type=Order)).run()


if __name__ == "__main__":
    main()
