"""Streams that reach new code of groupd: atheris (libFuzzer) changes those that have.

`python -m tests.fuzz.guided -max_total_time=60 FOLDER`: the broker runs in a thread of this
process, because libFuzzer counts in its own process only, and is asked over a real socket. What
reaches something new is a file in FOLDER. libFuzzer ends the process; its last lines say what was
reached.
"""

from __future__ import annotations

import asyncio
import random
import select
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import atheris
import structlog

from tests.fuzz import corpus
from tests.fuzz.limits import LIMITS
from tests.fuzz.lines import Line, Wrong
from tests.fuzz.mutation import Mutator, frames_of
from tests.fuzz.seeds import PARTITIONS, TOPICS, Known, Seeds, topic_ids
from tests.fuzz.talk import Talk, Way, one_stream
from tests.support.raw import api_versions, frame

with atheris.instrument_imports(include=["groupd"]):
    from groupd.coordinator.daemon.daemon import Daemon
    from groupd.coordinator.daemon.options import DaemonOptions
    from tests.support.with_internal_limits import configured

PATIENCE_S = 0.3
HANGS_S = 60.0
MOST_FRAMES = 12


class Inside:
    """A broker in a thread of this process. `failures`: what it has logged as an error."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.address = ("", 0)
        self.known = Known()
        self._ready = threading.Event()
        structlog.configure(processors=[self._judge])
        threading.Thread(target=self._run, daemon=True).start()
        if not self._ready.wait(60):
            raise RuntimeError("groupd does not start")
        self.known = Known(topic_ids(*self.address))

    def _judge(self, _: Any, method: str, event: Any) -> Any:
        if method in ("error", "critical", "exception") or event.get("exc_info"):
            self.failures.append(repr(dict(event)))
        raise structlog.DropEvent

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self.failures.append(repr(context))
        )
        options = DaemonOptions(
            listen=("127.0.0.1", 0),
            admin=None,
            data_dir=Path(tempfile.mkdtemp(prefix="groupd-guided-")),
            store_url="memory://",
            topics=tuple((name, PARTITIONS) for name in TOPICS),
            config=configured(LIMITS),
        )
        daemon = Daemon(options)
        await daemon.start()
        self.address = daemon.kafka_address
        self._ready.set()
        await asyncio.Event().wait()


class Guided:
    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._chance = random.Random(1)
        self._mutator = Mutator(self._chance, Seeds(random.Random(1)).every_version(4))

    def one(self, data: bytes) -> None:
        """Sends a stream. Raises Wrong, which libFuzzer keeps as a crash."""
        inside = self._inside
        # The last one is answered at once, which tells that a Produce before it has no reply.
        stream = data + api_versions(0)
        line = Line(inside.address)
        talk = Talk(line, one_stream(stream), inside.known, Way.AT_ONCE, self._chance)
        try:
            self._listen(talk)
        finally:
            talk.close()
        if inside.failures:
            raise Wrong("; ".join(inside.failures))

    def _listen(self, talk: Talk) -> None:
        waited = 0.0
        sending = True
        while not talk.done:
            readable, writable, _ = select.select(
                [talk.line.socket], [talk.line.socket] if sending else [], [], PATIENCE_S
            )
            if writable:
                sending = talk.write()
            if readable:
                waited = 0.0
                talk.read()
            if not (readable or writable):
                waited += PATIENCE_S
                if talk.waits_by_right:
                    return
                if waited > HANGS_S:
                    raise Wrong(f"no answer within {HANGS_S} s: {talk.expected[0]}")

    def change(self, data: bytes, max_size: int, seed: int) -> bytes:
        """libFuzzer's mutator: changes one frame, or which frames are in the stream and their
        order."""
        self._chance.seed(seed)
        chance = self._chance
        frames, _, rest = frames_of(data)
        dice = chance.random()
        if not frames or (dice < 0.15 and len(frames) < MOST_FRAMES):
            frames.insert(chance.randint(0, len(frames)), chance.choice(self._mutator.pool))
        elif dice < 0.2 and len(frames) > 1:
            del frames[chance.randrange(len(frames))]
        elif dice < 0.25:
            chance.shuffle(frames)
        elif dice < 0.27:
            return atheris.Mutate(data, max_size)
        else:
            at = chance.randrange(len(frames))
            changed = bytearray(frames[at])
            if dice < 0.4:
                changed[8:] = atheris.Mutate(bytes(changed[8:]), len(changed) + 20)
            else:
                self._mutator.change(changed)
            frames[at] = bytes(changed)
        return (b"".join(map(frame, frames)) + rest)[:max_size]


def unpack(folder: Path) -> int:
    """What a run begins with: the kept streams, and a valid frame of every version. Returns how
    many they are."""
    folder.mkdir(parents=True, exist_ok=True)
    streams = [frame(one) for one in Seeds(random.Random(1)).every_version(1)] + corpus.kept()
    for number, stream in enumerate(streams):
        (folder / f"start-{number:05}").write_bytes(stream)
    return len(streams)


def main() -> None:
    unpack(Path(sys.argv[-1]))
    guided = Guided(Inside())
    atheris.Setup(sys.argv, guided.one, custom_mutator=guided.change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
