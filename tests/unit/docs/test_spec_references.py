"""Every reference to a rule names a file and a number of `docs/spec/`, and both exist.

A reference is written `docs/spec/consumer-group.md#CG-41`. Comments and docstrings of all Python
files are looked at, and the whole text of pages and scenario files. A mention of the rules that
gives neither file nor number fails; words in backticks are code and pass. A page may also refer to
a whole file.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.docs.test_tidy import ROOT, anchors, tree

RULES = ROOT / "docs" / "spec"
NUMBER = r"#[\w.-]*\w"
REFERENCE = re.compile(rf"docs/spec/([\w-]+)\.md((?:{NUMBER}(?:(?:,| and| to)\s+{NUMBER})*)?)")
"""A file and one number or several: `classic-group.md#3, #J1 to #J5`, after the folder's name."""
WORD = re.compile(r"\b(?:spec|specification)s?\b", re.IGNORECASE)
REFERENCES_AT_LEAST = 120
"""The test must not pass by finding nothing."""


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what people read in a file."""
    text = path.read_text()
    if not WORD.search(text):
        return  # Most files; the others take their time.
    if path.suffix != ".py":
        # Blocks of code are no prose; their lines are counted all the same.
        text = re.sub(
            r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL
        )
        yield from enumerate(text.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def unnamed(text: str) -> list[str]:
    """Mentions of the rules without a file and a number, with some words around them."""
    text = re.sub(r"\[[^\]]*\]\([^)\s]*spec/[^)\s]*\)|\]\([^)\s]*\)", "", text)
    text = re.sub(r"`[^`]*`", "", REFERENCE.sub("", text))
    return [text[max(0, one.start() - 20) : one.end() + 20] for one in WORD.finditer(text)]


def looked_at() -> list[Path]:
    kinds = (".py", ".md", ".scenario", ".txt")
    return [p for p in tree() if p.suffix in kinds and RULES not in p.parents]


@cache
def numbers(name: str) -> frozenset[str]:
    """What can be referred to in a file of rules; nothing if there is no such file."""
    page = RULES / f"{name}.md"
    return frozenset(anchors(page)) if page.is_file() else frozenset()


def wrong(path: Path) -> Iterator[str]:
    for line, text in prose(path):
        where = f"{path.relative_to(ROOT)}:{line}"
        for name, listed in REFERENCE.findall(text):
            named = set(re.findall(NUMBER, listed))
            if path.suffix == ".py" and not named:
                named = {" without a number"}
            known = {f"#{number}" for number in numbers(name)}
            if not known:
                named = {" which is not there"}
            yield from (f"{where}: docs/spec/{name}.md{one}" for one in sorted(named - known))
        yield from (f"{where}: {mention!r}" for mention in unnamed(text))


def test_references_lead_to_a_rule() -> None:
    paths = looked_at()
    assert [found for path in paths for found in wrong(path)] == []
    named = [REFERENCE.findall(path.read_text()) for path in paths]
    assert sum(map(len, named)) >= REFERENCES_AT_LEAST


def test_no_number_is_given_twice() -> None:
    for page in RULES.glob("*.md"):
        ids = re.findall(r'<a id="([^"]+)"></a>', page.read_text())
        assert sorted(ids) == sorted(set(ids)), page.name


@pytest.mark.parametrize(
    "text",
    [
        "the epoch (spec 4.1)",
        "Spec 3 'Group'",
        "see the specification",
        "classic spec, J1-J5",
        "as docs/spec says",
    ],
)
def test_a_mention_without_file_and_number_is_found(text: str) -> None:
    assert len(unnamed(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "the epoch (docs/spec/consumer-group.md#4.1)",
        "docs/spec/classic-group.md#J1 to #J5, docs/spec/clients.md",
        "`spec.members` and [spec/README.md](spec/README.md)",
        "a special specialist",
    ],
)
def test_what_names_a_rule_or_is_code_passes(text: str) -> None:
    assert unnamed(text) == []


def test_a_reference_to_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.docs.test_spec_references.ROOT", tmp_path)
    file = tmp_path / "module.py"
    file.write_text('"""docs/spec/consumer-group.md#CG-41, #CG-990."""\n')
    assert list(wrong(file)) == ["module.py:1: docs/spec/consumer-group.md#CG-990"]
    file.write_text("# docs/spec/nothing.md#1 and docs/spec/clients.md\n")
    assert len(list(wrong(file))) == 2
