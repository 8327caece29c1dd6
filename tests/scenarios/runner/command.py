"""One command line: `[actor] VERB[(number)] words key=value`.

Values: `[a,b]` a list, `{foo:0-2,5 bar:1}` partitions by topic, `"..."` text that may be empty,
`null`. Brackets and quotes keep spaces together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

VERB = re.compile(r"^([A-Z]{2}[A-Z-]*)(?:\((-?\d+)\))?$")
OPENING, CLOSING = "[{<", "]}>"
Partitions = dict[str, list[int]]


@dataclass(slots=True)
class Command:
    """`actor` is "" for a command of nobody's."""

    text: str
    actor: str
    verb: str
    number: int | None
    words: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What the reply's line starts with."""
        return f"{self.actor} {self.verb}".strip()

    def text_of(self, name: str, default: str | None = None) -> str | None:
        value = self.options.get(name)
        return default if value is None else unquote(value)

    def list_of(self, name: str) -> list[str] | None:
        value = self.options.get(name)
        if value is None or value == "null":
            return None
        return list_items(value)

    def int_of(self, name: str, default: int) -> int:
        return int(self.options.get(name, default))

    @property
    def version(self) -> int | None:
        return int(self.options["v"]) if "v" in self.options else None


def parse_command(text: str) -> Command:
    tokens = split(text, " ")
    for index in (0, 1):
        match = VERB.match(tokens[index]) if len(tokens) > index else None
        if match is not None:
            actor = tokens[0] if index else ""
            number = None if match.group(2) is None else int(match.group(2))
            command = Command(text, actor, match.group(1), number)
            break
    else:
        raise ValueError(f"no verb in {text!r}")
    for token in tokens[index + 1 :]:
        name, equals, value = token.partition("=")
        if equals and re.fullmatch(r"[a-z_]+", name):
            command.options[name] = value
        else:
            command.words.append(token)
    return command


def split(text: str, separator: str) -> list[str]:
    """The parts between `separator`s that are not inside brackets or quotes; empty parts are left
    out."""
    parts, depth, quoted = [""], 0, False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in OPENING) - (character in CLOSING)
        if character == separator and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]


def unquote(value: str) -> str | None:
    if value == "null":
        return None
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def list_items(value: str) -> list[str]:
    """The items of `[a,b]`."""
    return [unquote(item) or "" for item in split(value[1:-1], ",")]


def partitions_of(value: str) -> Partitions:
    """`{foo:0-2,5 bar:1}`; also without the braces."""
    found: Partitions = {}
    for part in value.strip("{}").split():
        topic, _, numbers = part.rpartition(":")
        found.setdefault(topic, []).extend(numbers_of(numbers))
    return found


def numbers_of(text: str) -> list[int]:
    """`0-2,5` -> 0, 1, 2, 5."""
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        found.extend(range(int(low), int(high or low) + 1))
    return found


def show_numbers(numbers: list[int]) -> str:
    """The reverse of `numbers_of`, sorted."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def show_partitions(partitions: Partitions) -> str:
    shown = (f"{topic}:{show_numbers(partitions[topic])}" for topic in sorted(partitions))
    return "{" + " ".join(shown) + "}"
