"""What pyproject.toml cannot say: the description that a package index shows."""

import re
from pathlib import Path

from setuptools import setup

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


setup(
    long_description=description(Path("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
