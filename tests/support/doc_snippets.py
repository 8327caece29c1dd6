"""Snippets of a documentation page and what the page says that they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemon import ROOT

DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PROMPT, CONTINUED = "$ ", "\\"


@dataclass(frozen=True, slots=True)
class Snippet:
    """`language`: `console` for one command, or the word behind the fence. `output`: what the page
    shows that it prints; "" for nothing. `line`: of the page, from 1 on."""

    page: str
    line: int
    language: str
    code: str
    output: str


def snippets(page: str) -> list[Snippet]:
    """The snippets of a page of `docs`, in order. A block `text` right behind another block is its
    output; a block without a word is its own."""
    text = (DOCS / page).read_text("utf-8")
    found: list[Snippet] = []
    end = 0
    for fence in _FENCE.finditer(text):
        language, body = fence[1] or "text", fence[2]
        line = text.count("\n", 0, fence.start()) + 1
        if language == "text" and found and not text[end : fence.start()].strip():
            last = found.pop()
            found.append(Snippet(page, last.line, last.language, last.code, body))
        elif language == "console":
            found += _commands(page, line + 1, body)
        else:
            found.append(Snippet(page, line, language, body, ""))
        end = fence.end()
    return found


def _commands(page: str, line: int, body: str) -> list[Snippet]:
    found: list[Snippet] = []
    code, output, at = "", "", line
    for number, text in enumerate(body.splitlines()):
        if text.startswith(PROMPT):
            if code:
                found.append(Snippet(page, at, "console", code, output))
            code, output, at = text.removeprefix(PROMPT), "", line + number
        elif code.endswith(CONTINUED):
            code = code.removesuffix(CONTINUED) + text.strip()
        else:
            output += text + "\n"
    return [*found, Snippet(page, at, "console", code, output)]


def widest(page: str) -> int:
    """The longest line of any snippet, in columns."""
    text = Path(DOCS / page).read_text("utf-8")
    return max(len(line) for fence in _FENCE.finditer(text) for line in fence[2].splitlines())
