"""Which calls of which of Kafka's tools the tests make, and the table of them for the docs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.clients.tools import MAINS, Said

Run = Callable[..., Said]
Test = TypeVar("Test", bound=Callable[..., None])
SHOWN: list[tuple[str, str, str]] = []


def shows(tool: str, *calls: str) -> Callable[[Test], Test]:
    """Registers that the test makes these calls of this tool."""

    def register(test: Test) -> Test:
        SHOWN.extend((tool, call, test.__name__) for call in calls)
        return test

    return register


def rendered() -> str:
    """The table of `docs/clients.md`."""
    rows = []
    for tool, call, test in sorted(SHOWN, key=lambda row: list(MAINS).index(row[0])):
        escaped, shown = call.replace("|", "\\|"), test.removeprefix("test_").replace("_", " ")
        rows.append(f"| {tool} | `{escaped}` | yes | {shown} |")
    return "\n".join(["| tool | call | works | shown by the test |", "|---|---|---|---|", *rows])
