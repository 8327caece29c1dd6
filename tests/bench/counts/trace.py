"""Reads what `profiled.py` wrote, and counts."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

WRITES = "Outgoing.write"


class Call(NamedTuple):
    """A call of a function. `own`: it is groupd's; `in_loop`: the event loop's thread made it;
    `depth`: how many calls are around it."""

    file: str
    function: str
    own: bool
    in_loop: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Calls:
    """What one request calls. `own`: how many functions of groupd; `others`: of libraries. `down`:
    functions of groupd from the read of the socket to the handler; `up`: from the end of the work
    to the write of the reply; None: there is no such function. `all`: the calls themselves."""

    own: int
    others: int
    down: int | None
    up: int | None
    all: Sequence[Call]


class Trace:
    def __init__(
        self,
        functions: Sequence[tuple[str, str, bool]],
        requests: dict[int, list[list[tuple[bool, int, int]]]],
    ) -> None:
        self._functions = functions
        self._requests = requests

    def usual(self, number: int, work: tuple[str, str] | None) -> Calls:
        """What most requests with this correlation id call: beside some of them a timer rings.
        `work`: the functions with which the work begins and ends."""
        found = [self._calls(request) for request in self._requests[number]]
        sizes = [len(calls) for calls in found]
        usual = found[sizes.index(statistics.mode(sizes))]
        own = sum(call.own for call in usual)
        down, up = (
            (None, None) if work is None else (_before(usual, work[0]), _after(usual, work[1]))
        )
        return Calls(own, len(usual) - own, down, up, usual)

    def _calls(self, request: Iterable[tuple[bool, int, int]]) -> list[Call]:
        return [
            Call(*self._functions[number], in_loop, depth) for in_loop, depth, number in request
        ]


def _before(calls: Sequence[Call], function: str) -> int | None:
    """How many functions of groupd are called before `function`; None: that is not called."""
    at = _place(calls, function)
    return None if at is None else sum(call.own for call in calls[:at])


def _after(calls: Sequence[Call], function: str) -> int | None:
    """How many functions of groupd are called from the return of `function` to the write of the
    reply, which counts; None: one of them is not called."""
    at, write = _place(calls, function), _place(calls, WRITES)
    if at is None or write is None:
        return None
    depth, after = calls[at].depth, at + 1
    while calls[after].depth > depth:
        after += 1
    return sum(call.own for call in calls[after : write + 1])


def _place(calls: Sequence[Call], function: str) -> int | None:
    return next((i for i, call in enumerate(calls) if call.function == function), None)


def read(path: Path) -> Trace:
    kept = json.loads(path.read_text())
    return Trace(kept["functions"], {int(n): found for n, found in kept["requests"].items()})


def tree(calls: Sequence[Call]) -> str:
    """The calls of one request, indented by depth. Of libraries only the outermost calls are shown,
    with how many they make."""
    lines: list[str] = []
    base = {
        in_loop: min((call.depth for call in calls if call.in_loop == in_loop), default=0)
        for in_loop in (True, False)
    }
    at = 0
    while at < len(calls):
        call = calls[at]
        at += 1
        inside = 0
        if not call.own:
            while at < len(calls) and not calls[at].own and calls[at].depth > call.depth:
                inside += 1
                at += 1
        more = f" (+{inside})" if inside else ""
        mark = "" if call.own else "· "
        thread = "" if call.in_loop else "| "
        place = "/".join(Path(call.file).parts[-2:])
        indent = "  " * (call.depth - base[call.in_loop])
        lines.append(f"{thread}{indent}{mark}{call.function}{more}  [{place}]")
    return "\n".join(lines)
