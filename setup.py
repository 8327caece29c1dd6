"""What pyproject.toml cannot say: the description that a package index shows, and the web page."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

LINK = re.compile(r"\[([^\]]+)\]\(([^)#]*)(#[^)]*)?\)")


def description(readme: str) -> str:
    """README.md without its relative links, which lead nowhere on a package index.

    `[text](docs/x.md)` becomes "text (`docs/x.md`)", `[text](#heading)` becomes "text", and a
    sentence after the first paragraph says where those files are.
    """

    def plain(link: re.Match[str]) -> str:
        text, path = link[1], link[2]
        if "://" in path:
            return link[0]
        return text if path in ("", text) else f"{text} (`{path}`)"

    head, paragraph, rest = readme.split("\n\n", 2)
    where = "The files named below, like `docs/testing.md`, are in the source distribution."
    return LINK.sub(plain, "\n\n".join((head, paragraph, where, rest)))


# The same path in a checkout, where groupd/ has links, and in a source distribution.
CONSOLE = Path("groupd/coordinator/console")


def make_console() -> None:
    """Makes the web page of the admin port where it is missing or older than its sources. Without
    npm, or when npm fails, groupd is installed as it is: with no page, or an older one."""
    web, made = CONSOLE / "web", CONSOLE / "built" / "console.js"
    sources = [web / "build.mjs", web / "package-lock.json", *(web / "src").rglob("*.*")]
    newest = max((path.stat().st_mtime for path in sources if path.exists()), default=0)
    if made.exists() and made.stat().st_mtime >= newest:
        return
    npm = shutil.which("npm")
    if npm is None:
        print("npm is not installed: the web page is not built", file=sys.stderr)
        return
    # A developer has installed more (type checks, tests), which stays.
    commands = [[npm, "run", "--silent", "build"]]
    if not (web / "node_modules" / "esbuild").exists():
        commands.insert(0, [npm, "ci", "--omit=dev"])
    for command in commands:
        done = subprocess.run(command, cwd=web, check=False)
        if done.returncode != 0:
            print(f"{' '.join(command)} failed: the web page is not built", file=sys.stderr)
            return


class BuildWithConsole(build_py):
    def run(self) -> None:
        # A tree that is installed in place is a developer's, who has make.
        if not self.editable_mode:
            make_console()
        super().run()


class SourceWithConsole(sdist):
    def run(self) -> None:
        make_console()
        super().run()


setup(
    cmdclass={"build_py": BuildWithConsole, "sdist": SourceWithConsole},
    long_description=description(Path("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
