"""A type has one name, and a name means one type: classes and type aliases are unique in the
product (docs/terms.md)."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CAMEL_CASE = re.compile(r"_?[A-Z]\w*[a-z]\w*")

STILL_TO_BE_RENAMED = """
    Assignment Batches Bootstrap Commit Event Failure _Field Group _Group Handler Headers
    _Held Inputs Listener Mechanism Partition Partitions Places Request
    Role Route Row Run SecurityProtocol Shown _Snapshot Store Tokens TopicPartition
    _Waiting Wanted
"""
"""Names that more than one module defines. No other one may come, and one that is unique goes from
this list."""


def types(path: Path) -> Iterator[str]:
    """The classes and type aliases that a module defines at its top, private ones too."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if CAMEL_CASE.fullmatch(name) and _is_type(node.value):
                yield name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)


def _is_type(value: ast.expr) -> bool:
    """Whether an expression reads as a type: `int | None`, `Callable[[str], str]`, `Other`."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.BitOr)
    if isinstance(value, ast.Subscript):
        return _is_type(value.value)
    name = getattr(value, "attr", getattr(value, "id", ""))
    return bool(CAMEL_CASE.fullmatch(name)) or name in {"dict", "list", "set", "tuple", "type"}


def test_names_of_types_are_unique() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "groupd").rglob("*.py")):
        for name in types(path):
            homes[name].add(str(path.relative_to(ROOT)))
    assert len(homes) > 1000
    listed = set(STILL_TO_BE_RENAMED.split())
    twice = {name: sorted(found) for name, found in homes.items() if len(found) > 1}
    assert {name: twice[name] for name in sorted(twice.keys() - listed)} == {}
    assert listed - twice.keys() == set(), "unique now: take them from the list"
