"""Runs `generator.c`: plans in, replies and figures out."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

GENERATOR = Path(__file__).parent / "target" / "generator"
SLACK_S = 60.0


class LoadFailed(Exception):
    """The generator ended early: the peer closed a connection, say."""


@dataclass(frozen=True, slots=True)
class Result:
    """Of one run. `count`: replies in the timed part, `answered`: all; `changed`: those that were
    not as the first one of their connection; `replies`: the first of every connection, or all,
    without length and correlation id; `peer_cpu_us`: of the peer for each answer, its new
    connections included."""

    count: int
    answered: int
    seconds: float
    cpu_seconds: float
    p50_us: int
    p99_us: int
    changed: int
    unanswered: int
    replies: tuple[bytes, ...]
    peer_cpu_us: float = 0.0


def repeat(
    address: tuple[str, int],
    frames: Iterable[bytes],
    *,
    window: int,
    seconds: float,
    peer_cpu_s: Callable[[], float],
    warmup_s: float = 0.3,
) -> Result:
    """A connection for every frame, which sends nothing else, `window` at a time."""
    plan = b"".join(struct.pack(">i", 1) + frame for frame in frames)
    before_s = peer_cpu_s()
    result = _run(address, "repeat", window, seconds, warmup_s, plan)
    used_s = peer_cpu_s() - before_s
    return replace(result, peer_cpu_us=used_s / max(result.answered, 1) * 1e6)


def once(
    address: tuple[str, int], frames: Sequence[bytes], connections: int, *, timeout_s: float = 60.0
) -> Result:
    """Every frame once, dealt out over connections with one in flight each; replies in the order
    of the frames."""
    dealt = [frames[first::connections] for first in range(connections)]
    plan = b"".join(struct.pack(">i", len(part)) + b"".join(part) for part in dealt)
    result = _run(address, "once", 1, timeout_s, 0.0, plan)
    if len(result.replies) != len(frames):
        raise LoadFailed(f"{len(frames) - len(result.replies)} requests without an answer")
    ordered: list[bytes] = [b""] * len(frames)
    at = 0
    for first, part in enumerate(dealt):
        ordered[first::connections] = result.replies[at : at + len(part)]
        at += len(part)
    return replace(result, replies=tuple(ordered))


def _run(
    address: tuple[str, int], mode: str, window: int, seconds: float, warmup_s: float, plan: bytes
) -> Result:
    if not GENERATOR.is_file():
        raise RuntimeError("the load generator is not built: run `make bench-peers`")
    command = [str(GENERATOR), address[0], str(address[1]), mode, str(window)]
    done = subprocess.run(
        [*command, str(seconds), str(warmup_s)],
        input=plan,
        capture_output=True,
        check=False,
        timeout=seconds + warmup_s + SLACK_S,
    )
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode:
        raise LoadFailed(said)
    figures = json.loads(said)
    figures["count"] = figures.pop("replies")
    return Result(**figures, replies=tuple(_replies(done.stdout)))


def _replies(data: bytes) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length
