"""The picture of the packages in `docs/architecture.md`, made from the import contracts of
`pyproject.toml` and the first sentence of each package's docstring."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 110


def picture() -> str:
    """Every contract of layers as a stack: who may import stands above what it may import."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = configuration["tool"]["importlinter"]["contracts"]
    stacks = [one for one in contracts if one["type"] == "layers" and one.get("exhaustive")]
    return "\n\n".join(_stack(one["containers"][0], one["layers"]) for one in stacks) + "\n"


def _stack(container: str, layers: list[str]) -> str:
    named = [re.findall(r"\w+", layer) for layer in layers]
    width = max(len(name) for names in named for name in names)
    boxes = ["\n".join(_rows(container, names, width)) for names in named]
    line = "─" * WIDTH
    return "\n".join([container, line, f"\n{line}\n".join(boxes), line])


def _rows(container: str, names: list[str], width: int) -> Iterator[str]:
    for name in names:
        first, *more = textwrap.wrap(_sentence(f"{container}.{name}"), WIDTH - width - 3)
        yield f"{name:{width}}   {first}"
        yield from (" " * (width + 3) + line for line in more)


def _sentence(module: str) -> str:
    """The first sentence of a module's docstring, without what is in brackets. Raises
    AssertionError for a module that has none."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text()))
    assert docstring, f"{file.relative_to(ROOT)} begins with no docstring"
    text = re.sub(r" \([^)]*\)|`", "", " ".join(docstring.split()))
    return re.split(r"(?<=\w)[.;](?: |$)", text)[0]
