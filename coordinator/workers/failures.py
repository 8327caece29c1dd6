"""Failures of calls as bytes, so that the caller gets the exception that the store raised."""

from __future__ import annotations

import asyncio
import json

from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import LogCorrupt, LogError, LogFenced, LogUnavailable, StoreTaken

_PLAIN: dict[str, type[Exception]] = {
    "taken": StoreTaken,
    "unavailable": LogUnavailable,
    "corrupt": LogCorrupt,
    "value": ValueError,
}
"""Most special first."""


def encode_failure(error: BaseException) -> tuple[bytes, bool]:
    """The bytes, and whether it is one of the failures that are meant to be passed on; others
    are bugs and become LogUnavailable: what they have done is unknown."""
    found: dict[str, object] = {"text": str(error)}
    if isinstance(error, ApiError):
        found |= {"kind": "api", "code": int(error.code), "text": error.message}
    elif isinstance(error, LogFenced):
        found |= {"kind": "fenced", "logs": list(error.logs)}
    else:
        kind = next((name for name, of in _PLAIN.items() if isinstance(error, of)), None)
        if kind is None:
            expected = isinstance(error, (LogError, asyncio.CancelledError))
            found |= {"kind": "unavailable", "text": f"{type(error).__name__}: {error}"}
            return json.dumps(found).encode(), expected
        found["kind"] = kind
    return json.dumps(found).encode(), True


def decode_failure(body: bytes) -> Exception:
    """Raises ValueError for bytes that are no failure."""
    found = json.loads(body)
    if found["kind"] == "api":
        return ApiError(ErrorCode(found["code"]), found["text"])
    if found["kind"] == "fenced":
        return LogFenced(found["logs"])
    return _PLAIN[found["kind"]](found["text"])
