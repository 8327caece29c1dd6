"""The compiled build, which is a choice: everything else stands in pyproject.toml.

Without GROUPD_COMPILE=1 this does nothing, and groupd is pure Python. With it the modules listed as
`[tool.groupd] compiled` in pyproject.toml go through mypyc (a part of mypy) and a C compiler; the
wheel is then one of this platform and holds their sources as well, for tracebacks and readers.
"""

import os
import tomllib
from pathlib import Path
from typing import Any

from setuptools import setup


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


setup(**(compiled_build() if os.environ.get("GROUPD_COMPILE") == "1" else {}))
