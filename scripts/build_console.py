"""A step of every build of groupd: makes the web page of the admin port."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONSOLE = Path("groupd/coordinator/console")


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Makes the page where it is missing or older than its sources. Without npm, or when npm
        fails, groupd is installed as it is: with no page, or an older one."""
        # A tree that is installed in place is a developer's, who has make.
        if version == "editable":
            return
        console = Path(self.root, CONSOLE)
        web, made = console / "web", console / "built" / "console.js"
        sources = [web / "build.mjs", web / "package-lock.json", *(web / "src").rglob("*.*")]
        newest = max((path.stat().st_mtime for path in sources if path.exists()), default=0)
        if made.exists() and made.stat().st_mtime >= newest:
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("npm is not installed: the web page is not built")
            return
        # A developer has installed more (type checks, tests), which stays.
        commands = [[npm, "run", "--silent", "build"]]
        if not (web / "node_modules" / "esbuild").exists():
            commands.insert(0, [npm, "ci", "--omit=dev"])
        for command in commands:
            done = subprocess.run(command, cwd=web, check=False)
            if done.returncode != 0:
                failed = f"{' '.join(command)} failed: the web page is not built"
                self.app.display_warning(failed)
                return
