"""`groupd groups watch`: a daemon's groups in a terminal, asked for again and again.

Without a terminal one frame is printed as text.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rich.console import Console, Group
from rich.live import Live

from groupd.coordinator.admin.http_messages import path_of
from groupd.coordinator.cli.admin_port import AdminPort, NoAnswer
from groupd.coordinator.cli.groups.admin import nodes_of, pages
from groupd.coordinator.cli.groups.past import fail, now_ms
from groupd.coordinator.cli.groups.watch_frames import (
    FrameSize,
    group_frame,
    groups_frame,
    trouble_frame,
)

EVERY_S = 2.0
ANSWER_S = 2.0
"""How long an answer may take: meanwhile no key is read."""
PAGES_MAX = 5
"""The most pages of groups that are asked of a node: a watched daemon is asked again soon."""

Frame = Callable[[FrameSize], Group]


def watch(group: str | None, admin: AdminPort) -> None:
    """Draw until the user ends it."""
    draw = _all_groups(nodes_of(admin)) if group is None else _one_group(admin, group)
    console = Console()
    if not (console.is_terminal and sys.stdin.isatty()):
        try:
            console.print(draw(FrameSize(console.width, 10_000)))
        except NoAnswer as error:
            fail(str(error))
        return
    with _interrupts() as interrupts, _unbuffered_keys():
        _draw_again_and_again(console, draw, interrupts)


def _draw_again_and_again(console: Console, draw: Frame, interrupts: int) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                frame = draw(FrameSize(console.width, console.height))
            except NoAnswer as error:
                frame = trouble_frame(str(error))
            live.update(frame, refresh=True)
            if _wants_end(interrupts, EVERY_S):
                return


def _all_groups(nodes: list[AdminPort]) -> Frame:
    def draw(size: FrameSize) -> Group:
        rows: list[Any] = []
        troubles = []
        for node in nodes:
            try:
                for page in islice(pages(node, "/groups", ANSWER_S), PAGES_MAX):
                    rows += page
            except NoAnswer as error:
                troubles.append(str(error))
        if len(troubles) == len(nodes):
            raise NoAnswer(troubles[0])
        return groups_frame(rows, now_ms(), size, "; ".join(troubles))

    return draw


def _one_group(admin: AdminPort, group: str) -> Frame:
    path = path_of(("groups", group))

    def draw(size: FrameSize) -> Group:
        found = next(pages(admin, path, ANSWER_S))
        offsets = next(pages(admin, f"{path}/offsets", ANSWER_S))
        return group_frame(found, offsets, size)

    return draw


@contextmanager
def _unbuffered_keys() -> Iterator[None]:
    """Keys come at once and are not echoed."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _interrupts() -> Iterator[int]:
    """A file that can be read once there was a SIGINT. An exception in the middle of drawing might
    be lost: Python drops those that are raised while it frees objects."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    waked = signal.set_wakeup_fd(writable)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield readable
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(waked)
        os.close(readable)
        os.close(writable)


def _wants_end(interrupts: int, within_s: float) -> bool:
    """Waits for an interrupt or a key; other keys than q are ignored. The end of the input counts
    as q."""
    until = time.monotonic() + within_s
    keyboard = sys.stdin.fileno()
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([keyboard, interrupts], [], [], left)
        if interrupts in ready:
            return True
        if ready:
            keys = os.read(keyboard, 64)
            if not keys or b"q" in keys.lower():
                return True
    return False
