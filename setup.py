"""What pyproject.toml cannot say: the description for a package index, and the compiled build.

The compiled build is a choice. Without GROUPD_COMPILE=1 groupd is pure Python. With it the modules
listed as `[tool.groupd] compiled` in pyproject.toml go through mypyc (a part of mypy) and a C
compiler; the wheel is then one of this platform and holds their sources as well, for tracebacks
and readers.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from setuptools import setup

LINK = re.compile(r"\[([^\]]+)\]\(([^)#]*)(#[^)]*)?\)")


def description(readme: str) -> str:
    """The README without links into the source tree and its headings, which lead nowhere on a
    package index: `[text](docs/x.md)` becomes "text (docs/x.md)", and the first paragraph is
    followed by where that is."""

    def plain(link: re.Match[str]) -> str:
        text, path = link[1], link[2]
        if "://" in path:
            return link[0]
        return text if path in ("", text) else f"{text} (`{path}`)"

    head, paragraph, rest = readme.split("\n\n", 2)
    where = "The files named below, like `docs/testing.md`, are in the source distribution."
    return LINK.sub(plain, "\n\n".join((head, paragraph, where, rest)))


def compiled_build() -> dict[str, Any]:
    """Arguments of `setup`."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        # setuptools' build backend asks twice: first for what the build itself needs.
        return {"setup_requires": ["mypy>=1.16"]}
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))
    modules = project["tool"]["groupd"]["compiled"]
    paths = [module.replace(".", "/") + ".py" for module in modules]
    # One group, so that the modules call each other without Python between them.
    return {
        "ext_modules": mypycify(
            paths,
            opt_level=os.environ.get("GROUPD_COMPILE_OPT", "2"),
            group_name="groupd",
            target_dir="build/mypyc",
        )
    }


setup(
    long_description=description(Path("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
    **(compiled_build() if os.environ.get("GROUPD_COMPILE") == "1" else {}),
)
