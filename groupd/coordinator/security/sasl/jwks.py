"""The keys of an identity provider: a JWKS in a file, or behind an https address
(`docs/spec/security.md#2.3`).

A JWKS that cannot be read, or has no key that can be used, changes nothing: the earlier keys stay.
Nothing here runs on the event loop: the thread that judges tokens reads files, and a thread of
their own fetches from addresses.
"""

from __future__ import annotations

import random
import threading
import time
import urllib.request
from collections import OrderedDict
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jwt
import msgspec
import structlog

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.sasl.tokens import SigningKey, algorithms_of

BYTES_MAX = 1024 * 1024
KEYS_MAX = 1000
TIMEOUT_S = 10.0
EARLY_S = 60.0
"""An unknown kid causes at most one early fetch of the keys in this time."""
BACKOFF_S = 0.1
BACKOFF_MAX_S = 10.0
LONGEST_S = 1e9
"""Some thirty years: a thread cannot wait for much longer."""
KIDS_MAX = 16
"""How many unknown kids are remembered."""
KID_LENGTH_MAX = 1000

log = structlog.get_logger("groupd.sasl")


class UnusableJwks(Exception):
    """The text is no JWKS, or one without a key that can be used; `str()` says why."""


def parse_jwks(text: bytes) -> tuple[SigningKey, ...]:
    """The keys that can check signatures. Others, such as symmetric keys, are left out. Raises
    UnusableJwks if no key is left."""
    try:
        entries = msgspec.json.decode(text)["keys"]
        found = [_signing_key(entry) for entry in entries[:KEYS_MAX]]
    except (msgspec.DecodeError, LookupError, TypeError, RecursionError):
        raise UnusableJwks('not a JWKS, which is JSON: {"keys": [...]}') from None
    keys = tuple(key for key in found if key is not None)
    if not keys:
        raise UnusableJwks("no key that can check signatures")
    return keys


def _signing_key(entry: Any) -> SigningKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    kid, only = entry.get("kid"), entry.get("alg")
    if entry.get("kty") not in ("RSA", "EC", "OKP") or not (kid is None or isinstance(kid, str)):
        return None
    try:
        # The entry's own "alg" is not used: it need not fit the key.
        key = jwt.PyJWK({**entry, "alg": _SOME_ALGORITHM[entry["kty"]]}).key
    except (jwt.PyJWTError, ValueError, TypeError, LookupError) as error:
        log.warning("key of the JWKS left out", kid=kid, reason=type(error).__name__)
        return None
    algorithms = algorithms_of(key)
    if only is not None:
        algorithms = tuple(algorithm for algorithm in algorithms if algorithm == only)
    return SigningKey(key, algorithms, kid) if algorithms else None


_SOME_ALGORITHM = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}
"""An algorithm for each type of key, because a library wants one."""


class FileKeys:
    """The keys of a file. It is read again when it has changed. Raises ConfigError if it cannot be
    read at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._keys: tuple[SigningKey, ...] = ()
        try:
            self._read()
        except (OSError, UnusableJwks) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"the JWKS {path} cannot be used: {why}") from error

    def current(self) -> tuple[SigningKey, ...]:
        try:
            self._read()
        except (OSError, UnusableJwks) as error:
            log.warning("JWKS not read; the keys before stay", file=self._path, reason=str(error))
        return self._keys

    def missed(self, kid: str) -> None:
        """Does nothing: the file has just been checked."""

    def close(self) -> None:
        """There is nothing to end."""

    def _read(self) -> None:
        found = self._path.stat()
        seen = found.st_mtime_ns, found.st_size, found.st_ino
        if seen == self._seen:
            return
        # This is set before the file is read. So a broken file is logged once, and a change during
        # the reading is noticed.
        self._seen = seen
        if found.st_size > BYTES_MAX:
            raise UnusableJwks(f"larger than {BYTES_MAX} bytes")
        self._keys = parse_jwks(self._path.read_bytes())


class UnknownKids:
    """The unknown kids that tokens have named. Because they are remembered, a client cannot make us
    fetch the keys all the time. `elapsed()`: a clock in seconds."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._missed: OrderedDict[str, float] = OrderedDict()

    def worth_asking(self, kid: str) -> bool:
        """Whether to fetch the keys now because of this kid."""
        if len(kid) > KID_LENGTH_MAX:
            return False
        now, before = self._elapsed(), self._missed.get(kid)
        if before is not None and now - before < EARLY_S:
            return False
        if before is None and len(self._missed) >= KIDS_MAX:
            oldest, missed = next(iter(self._missed.items()))
            if now - missed < EARLY_S:
                return False
            del self._missed[oldest]
        self._missed[kid] = now
        self._missed.move_to_end(kid)
        return True


class HttpsKeys:
    """The keys behind an https address.

    A thread fetches them at once, then every `refresh_ms`, and early when a token names an unknown
    kid. After an error it fetches again after `BACKOFF_S`, then after twice as long each time, up
    to `BACKOFF_MAX_S`. `fetch(url)` returns the JWKS, or raises OSError."""

    def __init__(
        self,
        url: str,
        refresh_ms: int,
        fetch: Callable[[str], bytes] | None = None,
    ) -> None:
        self._url = url
        self._refresh_s = min(refresh_ms / 1000, LONGEST_S)
        self._fetch = fetch or fetch_https
        self._keys: tuple[SigningKey, ...] = ()
        self._kids = UnknownKids(time.monotonic)
        self._asked = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jwks", daemon=True)
        self._thread.start()

    def current(self) -> tuple[SigningKey, ...]:
        return self._keys

    def missed(self, kid: str) -> None:
        if self._kids.worth_asking(kid):
            self._asked.set()

    def close(self) -> None:
        """Ends the thread. Does not wait for an answer that is under way."""
        self._ended.set()
        self._asked.set()

    def _run(self) -> None:
        failures = 0
        while not self._ended.is_set():
            try:
                self._keys = parse_jwks(self._fetch(self._url))
            except (OSError, ValueError, UnusableJwks) as error:
                failures += 1
                log.warning("JWKS not fetched; the keys before stay", url=self._url, reason=error)
                # An unknown kid does not shorten this pause.
                self._ended.wait(pause_after(failures, BACKOFF_S, BACKOFF_MAX_S))
                continue
            failures = 0
            self._asked.wait(self._refresh_s)
            self._asked.clear()


def pause_after(failures: int, first_s: float, most_s: float) -> float:
    """How long to wait after `failures` in a row, in seconds: a fifth more or less, so that brokers
    do not all ask at once."""
    pause_s: float = min(first_s * 2 ** min(failures - 1, 30), most_s)
    return pause_s * random.uniform(0.8, 1.2)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because it could lead to another host, or to plain http."""

    def redirect_request(self, *_: Any) -> None:
        return None


def fetch_https(url: str) -> bytes:
    """The body that the address answers with. The certificates of the system are trusted, or those
    of SSL_CERT_FILE. Raises OSError."""
    opener = urllib.request.build_opener(_NoRedirect())
    try:
        with opener.open(url, timeout=TIMEOUT_S) as response:
            body: bytes = response.read(BYTES_MAX + 1)
    except HTTPException as error:
        raise OSError(f"no HTTP: {type(error).__name__}") from error
    if len(body) > BYTES_MAX:
        raise OSError(f"larger than {BYTES_MAX} bytes")
    return body


def signing_keys(url: str, refresh_ms: int) -> FileKeys | HttpsKeys:
    """The keys behind `sasl.oauthbearer.jwks.endpoint.url`. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return FileKeys(Path(unquote(parts.path)))
    if parts.scheme == "https" and parts.netloc:
        return HttpsKeys(url, refresh_ms)
    raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url={url}: must begin with file: or https:")
