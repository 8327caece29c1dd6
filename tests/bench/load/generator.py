"""Runs `generator.c`: plans in, replies and figures out."""

from __future__ import annotations

import json
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

GENERATOR = Path(__file__).parent / "target" / "generator"
SLACK_S = 60.0
ONCE_S = 20.0
ONCE_PER_S = 200.0
"""A peer that answers fewer requests a second is taken not to answer."""
SIGNS = (b"counting\n", b"counted\n")
"""The generator writes these at the begin and at the end of the timed part."""


class LoadFailed(Exception):
    """The generator ended early: the peer closed a connection, say."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run. `count`: replies in the timed part, which took `seconds` and
    `cpu_seconds` of the generator; `answered`: all replies; `changed`: those of the timed part that
    differ from the one of their connection before it; `replies`: that one of every connection, or
    all, without length and correlation id; `acknowledged`: records, by consumers of share groups;
    `peer_cpu_us`: what the peer used for each reply of the timed part."""

    count: int
    answered: int
    seconds: float
    cpu_seconds: float
    p50_us: int
    p99_us: int
    changed: int
    unanswered: int
    replies: tuple[bytes, ...]
    acknowledged: int = 0
    peer_cpu_us: float = 0.0


def repeat(
    address: tuple[str, int],
    frames: Iterable[bytes],
    *,
    window: int,
    seconds: float,
    warmup_s: float,
    peer_cpu_s: Callable[[], float],
    tls: bool = False,
) -> Result:
    """Opens a connection for every frame, which sends nothing else, `window` at a time; the replies
    of `seconds` after `warmup_s` count."""
    return _timed(address, "repeat", window, seconds, warmup_s, frames, peer_cpu_s, tls=tls)


def consume(
    address: tuple[str, int],
    frames: Iterable[bytes],
    *,
    records: int,
    seconds: float,
    peer_cpu_s: Callable[[], float],
) -> Result:
    """Opens a connection for every frame, a ShareFetch v2 of one topic that opens a session; after
    that each request acknowledges what the last one acquired. It ends when so many `records` have
    been acknowledged, or `seconds` are over. Replies count that confirm acknowledgements."""
    return _timed(address, "share", records, seconds, 0.0, frames, peer_cpu_s)


def _timed(
    address: tuple[str, int],
    mode: str,
    limit: int,
    seconds: float,
    warmup_s: float,
    frames: Iterable[bytes],
    peer_cpu_s: Callable[[], float],
    *,
    tls: bool = False,
) -> Result:
    """Runs a mode that has a connection for every frame and a timed part."""
    plan = b"".join(struct.pack(">i", 1) + frame for frame in frames)
    seen: list[float] = []
    result = _run(
        address, mode, limit, seconds, warmup_s, plan, lambda: seen.append(peer_cpu_s()), tls=tls
    )
    before_s, after_s = seen
    return replace(result, peer_cpu_us=(after_s - before_s) / max(result.count, 1) * 1e6)


def once(
    address: tuple[str, int],
    frames: Sequence[bytes],
    connections: int,
    *,
    tls: bool = False,
    hold_s: float = 0.0,
    look: Callable[[], None] | None = None,
) -> Result:
    """Sends every frame once, dealt out over connections with one in flight each; replies in the
    order of the frames. The connections stay open for `hold_s` after the last reply; `look` is
    called when that begins and when it ends."""
    connections = min(connections, len(frames))
    timeout_s = ONCE_S + len(frames) / ONCE_PER_S
    dealt = [frames[first::connections] for first in range(connections)]
    plan = b"".join(struct.pack(">i", len(part)) + b"".join(part) for part in dealt)
    result = _run(address, "once", 1, timeout_s, hold_s, plan, look, tls=tls)
    if len(result.replies) != len(frames):
        raise LoadFailed(f"{len(frames) - len(result.replies)} requests without an answer")
    ordered: list[bytes] = [b""] * len(frames)
    at = 0
    for first, part in enumerate(dealt):
        ordered[first::connections] = result.replies[at : at + len(part)]
        at += len(part)
    return replace(result, replies=tuple(ordered))


def _run(
    address: tuple[str, int],
    mode: str,
    limit: int,
    seconds: float,
    warmup_s: float,
    plan: bytes,
    look: Callable[[], None] | None = None,
    *,
    tls: bool = False,
) -> Result:
    """Runs the generator. `look` is called when the timed part begins and when it ends. `limit`:
    the window, in the mode "share" the records; `warmup_s`: in the mode "once" the time for which
    connections stay open."""
    if not GENERATOR.is_file():
        raise RuntimeError("the load generator is not built: run `make bench-peers`")
    command = [str(GENERATOR), address[0], str(address[1]), mode, str(limit)]
    with subprocess.Popen(
        [*command, str(seconds), str(warmup_s), "tls" if tls else "plain"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        limit_s = seconds + warmup_s + SLACK_S
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            replies, said = _talk(process, plan, look)
        finally:
            timer.cancel()
            process.kill()
    if process.returncode:
        raise LoadFailed(said or f"connections and requests not done in {limit_s:.0f} s")
    figures = json.loads(said)
    figures["count"] = figures.pop("replies")
    return Result(**figures, replies=tuple(_replies(replies)))


def _talk(
    process: subprocess.Popen[bytes], plan: bytes, look: Callable[[], None] | None
) -> tuple[bytes, str]:
    """What the generator wrote to stdout, and to stderr besides its signs."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(plan)
    process.stdin.close()
    said = b""
    if look is not None:
        for sign in SIGNS:
            line = process.stderr.readline()
            if line != sign:
                said = line
                break
            look()
    replies = process.stdout.read()
    said += process.stderr.read()
    process.wait()
    return replies, said.decode(errors="replace").strip()


def _replies(data: bytes) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length
