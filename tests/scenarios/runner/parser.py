"""Scenario files as data, and back to text.

    === CG-15 the first member of a new group
    config: group.consumer.assignment.interval.ms=0
    topics: foo=6

    m1 HB(0) names=[foo]
    ----
    m1 HB: epoch=2 {foo:0-5}
    + R3 epoch=2
    ---- kafka: why the real broker answers differently
    m1 HB: epoch=1 {foo:0-5}

A scenario starts with `===`, its number or numbers and a title; then options, then blocks, apart by
empty lines. A block is commands, `----`, and what they must lead to (nothing, if there is no
`----`). Lines that start with `+` are inner facts (records, events, timers): only the core shows
them. `---- <backend>: <reason>` replaces the expectation for one backend. `#` starts a comment.

Options: `config: key=value ...` of the broker, over the defaults of `brokers.py`; `topics: foo=6
...` created first; `only: core -- reason`, `not: kafka -- reason`: backends that can show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEAD = re.compile(r"^=== ((?:(?:CG|CL|OF|LG|SG)-\d\d\d?[a-z]?,? ?)+)(.*)$")
NUMBER = re.compile(r"(?:CG|CL|OF|LG|SG)-\d\d\d?[a-z]?")
RULE = "----"
INNER = "+ "
OPTIONS = ("config", "topics", "not", "only")


class ScenarioError(Exception):
    """A scenario file that cannot be read; says where."""


@dataclass(slots=True)
class Expectation:
    """`reason` is empty for the default one."""

    lines: list[str]
    reason: str = ""


@dataclass(slots=True)
class Block:
    """`comments` stand above the commands."""

    commands: list[str]
    expected: Expectation
    variants: dict[str, Expectation] = field(default_factory=dict)
    line: int = 0


@dataclass(slots=True)
class Scenario:
    """`numbers`: "CG-15" or, for one of several scenarios of a number, "CG-15b"."""

    path: Path
    numbers: list[str]
    title: str
    options: list[tuple[str, str]]
    blocks: list[Block]

    @property
    def slug(self) -> str:
        return "+".join(self.numbers)

    def option(self, name: str) -> str:
        return next((value for key, value in self.options if key == name), "")

    def pairs(self, name: str) -> dict[str, str]:
        """An option of the form `a=1 b=2`."""
        return dict(item.split("=", 1) for item in self.option(name).split())

    def excluded(self, backend: str) -> str | None:
        """Why this backend cannot show the scenario; None if it can."""
        for key, value in self.options:
            names, _, reason = value.partition(" -- ")
            listed = backend in re.split(r"[ ,]+", names)
            if (key == "not" and listed) or (key == "only" and not listed):
                return reason
        return None


def read_file(path: Path) -> list[Scenario]:
    """Every scenario of a file. Raises ScenarioError."""
    scenarios: list[Scenario] = []
    for number, chunk in _chunks(path.read_text().splitlines()):
        if chunk[0].startswith("==="):
            scenarios.append(_head(path, number, chunk))
        elif not scenarios:
            raise ScenarioError(f"{path.name}:{number}: a block before the first ===")
        else:
            scenarios[-1].blocks.append(_block(path, number, chunk))
    return scenarios


def _chunks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Runs of non-empty lines with the number of their first."""
    chunk: list[str] = []
    number = 0
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            chunk.append(line.rstrip())
        elif chunk:
            yield number - len(chunk), chunk
            chunk = []


def _head(path: Path, number: int, chunk: list[str]) -> Scenario:
    match = HEAD.match(chunk[0])
    if match is None:
        raise ScenarioError(f"{path.name}:{number}: expected === and a scenario number")
    options = []
    for offset, line in enumerate(chunk[1:], 1):
        name, _, value = line.partition(":")
        if name not in OPTIONS and not line.startswith("#"):
            raise ScenarioError(f"{path.name}:{number + offset}: no option {name!r}")
        options.append((name, value.strip()) if name in OPTIONS else ("#", line))
    numbers = NUMBER.findall(match.group(1))
    return Scenario(path, numbers, match.group(2).strip(), options, [])


def _block(path: Path, number: int, chunk: list[str]) -> Block:
    cut = chunk.index(RULE) if RULE in chunk else len(chunk)
    block = Block(chunk[:cut], Expectation([]), line=number)
    current = block.expected
    for offset, line in enumerate(chunk[cut + 1 :], cut + 1):
        if line.startswith(RULE):
            backend, colon, reason = line[len(RULE) :].strip().partition(":")
            if not colon or not reason.strip():
                raise ScenarioError(f"{path.name}:{number + offset}: a variant needs a reason")
            current = block.variants.setdefault(backend, Expectation([], reason.strip()))
        else:
            current.lines.append(line)
    return block


def write_file(path: Path, scenarios: list[Scenario]) -> None:
    """The scenarios as text: what `read_file` reads back."""
    path.write_text("\n\n".join(_text(scenario) for scenario in scenarios) + "\n")


def _text(scenario: Scenario) -> str:
    head = [f"=== {' '.join(scenario.numbers)} {scenario.title}".rstrip()]
    head += [value if name == "#" else f"{name}: {value}" for name, value in scenario.options]
    parts = ["\n".join(head)]
    for block in scenario.blocks:
        lines = list(block.commands)
        if block.expected.lines or block.variants:
            lines += [RULE, *block.expected.lines]
        for backend, variant in sorted(block.variants.items()):
            lines += [f"{RULE} {backend}: {variant.reason}", *variant.lines]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
