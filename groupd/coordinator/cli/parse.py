"""Parses flags, config files, and times in the forms in which people and programs write them. Every
error is a `UsageError` of one line."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupd.coordinator.config.coordinator_config import CoordinatorConfig


class UsageError(Exception):
    """A mistake on the command line, which ends the command with exit code 2. `str()` is one line
    that says what is wrong and how to correct it."""


_VARIABLE = re.compile(r"\$\{env:([^}]*)\}")

_LINE_END = re.compile(r"\r\n|\r|\n")
_PROPERTY = re.compile(r"((?:[^\\=:]|\\.)*)[=:](.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def host_port(text: str, flag: str) -> tuple[str, int]:
    """Parses "127.0.0.1:9092" into ("127.0.0.1", 9092). Removes the brackets of an IPv6 host."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not _number(port) or int(port) > 65535:
        raise UsageError(f"{flag} {text}: must be HOST:PORT with a port from 0 to 65535")
    return host, int(port)


def real_port(text: str, flag: str) -> tuple[str, int]:
    """As `host_port`, for an address to connect to: the port must not be 0."""
    host, port = host_port(text, flag)
    if not port:
        raise UsageError(f"{flag} {text}: nobody can connect to port 0; name the real one")
    return host, port


def servers(text: str, flag: str) -> list[tuple[str, int]]:
    """Parses "a:9092,b:9092" into at least one address, each as `real_port` does."""
    return [real_port(one.strip(), flag) for one in text.split(",")]


def _number(text: str) -> bool:
    """Whether the text is a number in ASCII digits (`int` also accepts digits of other scripts)."""
    return text.isascii() and text.isdecimal()


DEFAULT_DATA_DIR = Path("./groupd-data")


def directory(text: str | Path) -> Path:
    """Returns a path, and refuses "". A shell makes "" from a variable that is not set, and pathlib
    would take it for the current directory. typer uses this function as a parser and also calls it
    with defaults."""
    if not str(text):
        raise UsageError("--data-dir: is empty; name a directory, or ./ for this one")
    return Path(text)


def topic(text: str) -> tuple[str, int]:
    """Parses "orders:6" into ("orders", 6)."""
    from groupd.coordinator.runtime.coordinator_types import is_internal

    name, colon, count = text.rpartition(":")
    if not colon or not name or not _number(count) or int(count) < 1:
        raise UsageError(f"--topic {text}: must be NAME:PARTITIONS with 1 or more partitions")
    if is_internal(name):
        raise UsageError(f"--topic {text}: {name} is internal; the daemon makes it itself")
    return name, int(count)


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text}: must be KEY=VALUE")
    return key.strip(), value.strip()


def one_of(text: str, flag: str, choices: tuple[str, ...]) -> str:
    """Returns the text. Raises UsageError unless it is one of `choices`."""
    if text not in choices:
        allowed = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise UsageError(f"{flag} {text}: must be {allowed}")
    return text


def config_file(path: Path) -> dict[str, str]:
    """Reads the settings of a TOML file or a `.properties` file, by Kafka's names."""
    if path.suffix == ".properties":
        return properties_file(path, "--config")
    raw = _text_of(path, "--config")
    import tomllib  # imported here, because most starts have no such file

    try:
        return dict(_flatten(tomllib.loads(raw), ""))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--config {path}: not valid TOML: {error}") from None


def build_config(
    path: Path | None, sets: Iterable[str], profile: str = "default"
) -> CoordinatorConfig:
    """Builds the configuration from defaults, profile, file and `--set`, and checks it as a
    whole."""
    # Imported here, because it is the daemon that has a configuration, and few commands.
    from groupd.coordinator.config.coordinator_config import PROFILES, with_settings
    from groupd.coordinator.config.settings import ConfigError

    one_of(profile, "--profile", tuple(PROFILES))
    settings = {} if path is None else config_file(path)
    settings.update(key_value(item) for item in sets)
    settings = {key: _from_environment(key, text) for key, text in settings.items()}
    try:
        return with_settings(PROFILES[profile], settings)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _from_environment(key: str, text: str) -> str:
    """Replaces `${env:NAME}` by the value of that variable, like Kafka's EnvVarConfigProvider. So
    neither a file nor a command line has to contain a secret."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise UsageError(f"{key}: the environment has no variable {match[1]}")
        return found

    return _VARIABLE.sub(value, text)


def visible_secrets(sets: Iterable[str]) -> list[str]:
    """Returns the known keys of `--set` whose secrets are visible on the command line."""
    from groupd.coordinator.config.coordinator_config import secret

    pairs = [key_value(item) for item in sets]
    return [key for key, text in pairs if secret(key) and not _VARIABLE.search(text)]


def properties_file(path: Path, flag: str) -> dict[str, str]:
    """Reads a file in Java's format, as Kafka does. A backslash at the end of a line continues it
    on the next line. Elsewhere a backslash is an escape, so a regular expression needs two. Spaces
    at the end of a value are removed."""
    settings = {}
    for number, line in _whole_lines(_text_of(path, flag)):
        found = _PROPERTY.fullmatch(line)
        if found is None:
            raise UsageError(f"{flag} {path}: line {number} is not KEY=VALUE")
        settings[_unescaped(found[1].strip())] = _unescaped(found[2].strip())
    return settings


def _whole_lines(text: str) -> Iterable[tuple[int, str]]:
    """Yields (number, text) of each line, without empty lines and comments. Continued lines are
    joined, with the number of the last of them."""
    whole = ""
    for number, line in enumerate(_LINE_END.split(text), start=1):
        line = line.lstrip()
        if not whole and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        whole += line[: len(line) - backslashes % 2]
        if backslashes % 2 == 0:
            yield number, whole
            whole = ""
    if whole:
        yield number, whole


def _unescaped(text: str) -> str:
    def plain(escape: re.Match[str]) -> str:
        if escape[1] is not None:
            return chr(int(escape[1], 16))
        return _ESCAPED.get(escape[2], escape[2])

    # Java writes a character beyond the first 65536 as two escapes, a surrogate pair.
    units = _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass")
    return units.decode("utf-16", "replace")


def _text_of(path: Path, flag: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag} {path}: is not UTF-8 text") from None


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, str]]:
    """Yields settings with dotted names from nested TOML tables, such as `[group.consumer]` with
    `max.size = 5`."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield prefix + key, str(value).lower()
        elif isinstance(value, list):
            yield prefix + key, ",".join(str(part) for part in value)
        else:
            yield prefix + key, str(value)


# Times ------------------------------------------------------------------------------------------

# The forms: ISO 8601 (`2026-03-01T12:00:00Z`, `2026-03-01 12:00+01:00`, `2026-03-01`; without a
# zone it is local time), milliseconds since 1970 (`1772366400000`), `now`, and times before now
# (`-90s`, `-15m`, `-2h`, `-1h30m`, `-7d`, `-2w`).

FORMS = "ISO 8601, milliseconds since 1970, now, or -15m, -2h, -7d"

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BEFORE_NOW = re.compile(r"-(?:\d+(?:ms|[smhdw]))+", re.ASCII)
_PART = re.compile(r"(\d+)(ms|[smhdw])", re.ASCII)
_SECONDS_DIGITS = (9, 10)
"""The seconds since 1970 have this many digits between 1973 and 2286. Read as milliseconds, such a
number would be a time in 1970."""
_MAX_MS = 253_402_300_799_999  # the end of the year 9999


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def parse_time(text: str, now_ms: int) -> int:
    """Returns milliseconds since 1970. Raises UsageError, which names `text` and the forms."""
    word = text.strip()
    if word == "now":
        return now_ms
    if _BEFORE_NOW.fullmatch(word):
        return now_ms - sum(int(n) * _UNIT_MS[unit] for n, unit in _PART.findall(word))
    if word.isascii() and word.isdecimal() and len(word) != len("20260301"):
        return _milliseconds(word)
    try:
        moment = datetime.fromisoformat(word)
        # `astimezone` takes a time without a zone as local time.
        return _to_ms(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise UsageError(f"{text or '(nothing)'} is no time: write {FORMS}") from None


def _milliseconds(word: str) -> int:
    if len(word) in _SECONDS_DIGITS:
        raise UsageError(f"{word} looks like seconds since 1970: times are in milliseconds")
    if len(word) > len(str(_MAX_MS)) or int(word) > _MAX_MS:
        raise UsageError(f"{word} is after the year 9999: times are in milliseconds since 1970")
    return int(word)


def _to_ms(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def show_time(time_ms: int) -> str:
    """Returns local time with its zone, to the millisecond; "-" for -1 (unknown)."""
    if time_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return moment.replace(microsecond=time_ms % 1000 * 1000).isoformat(" ", "milliseconds")
