"""The files of the web page, for browsers.

They are read once, in a thread. They hold nothing secret, so the port gives them to everybody; what
the page shows it asks for itself, with the credentials of who looks at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, text
from groupd.coordinator.console.built import built_files

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere, nothing inline: a group's name can never run as a script."""

_HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache"),
)
NOT_BUILT = (
    "this installation has no web page: it was made without npm. Install npm and run `make run` "
    "again, or install groupd from a wheel"
)


class ConsoleFiles:
    """Reads the files at the first request."""

    def __init__(self) -> None:
        self._files: Mapping[str, bytes] | None = None

    async def page(self, request: HttpRequest) -> HttpReply:
        """The route `/` for browsers."""
        return await self._reply(INDEX)

    async def file(self, request: HttpRequest) -> HttpReply:
        """The route `/console/NAME`."""
        match request.path:
            case (_, name):
                return await self._reply(name)
            case _:
                return text("not found", 404)

    async def _reply(self, name: str) -> HttpReply:
        if self._files is None:
            self._files = await asyncio.to_thread(_read)
        if name not in self._files:
            return text(NOT_BUILT if name == INDEX else "not found", 404)
        return HttpReply(self._files[name], TYPES[name.rpartition(".")[2]], headers=_HEADERS)


def _read() -> Mapping[str, bytes]:
    return {
        name: content for name, content in built_files().items() if name.rpartition(".")[2] in TYPES
    }
