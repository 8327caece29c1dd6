"""The table of limits in docs/security.md says what the code does: its defaults are those of the
settings, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import Struct

from groupd.coordinator import log_limits
from groupd.coordinator.admin import access, admin_limits, http_server, http_wire
from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY
from groupd.coordinator.config.internal_limits import InternalLimits as LIMITS
from groupd.coordinator.lag import watch
from groupd.coordinator.security import audit, quota_entities
from groupd.coordinator.security.sasl import mechanisms, oauthbearer, scram
from groupd.coordinator.server import (
    login_throttle,
    sasl_gate,
    shared_resources,
    tls_connection,
    token_verifier_thread,
    turns,
)
from groupd.coordinator.share_partitions import acknowledging, dead_letters, leaders, share_sessions
from groupd.coordinator.share_state import machine
from groupd.protocol.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[3]
METRIC = re.compile(r"`(groupd_\w+)`")
QUOTED = re.compile(r"`([^`]+)`")
CODE = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
AMOUNT = re.compile(r"(\d+)(?: (min|s|KiB|MiB)\b)?")
UNITS = {"": 1, "s": 1000, "min": 60_000, "KiB": 1024, "MiB": 1024 * 1024}
"""The factors of the units: settings count in milliseconds and bytes."""

PLACES = admin_limits.REQUESTS_MAX.values()
CONSTANTS = {
    "TLS handshakes under way": str(LIMITS.tls_handshakes_max),
    "time for the handshake": f"{LIMITS.tls_handshake_timeout_ms // 1000} s",
    "time for the login": f"{LIMITS.authentication_timeout_ms // 1000} s",
    "size of a frame before the login": f"{LIMITS.sasl_server_max_receive_size // 1024} KiB",
    "ACLs": str(LIMITS.acls_max),
    "partitions in all share sessions together": str(share_sessions.PARTITIONS_MAX),
    "share-partitions in memory at their leader": str(leaders.SHARE_PARTITIONS_MAX),
    "ranges of offsets in the state of a share-partition": str(machine.BATCHES_MAX),
    "acknowledgements in a request, as ranges and types": str(acknowledging.ACKNOWLEDGEMENTS_MAX),
    "ranges of acknowledgements of one partition in a request": (
        f"{acknowledging.MORE_BATCHES} more than it has offsets in flight"
    ),
    "share-partitions that copy dead letters at the same time": str(dead_letters.BURIALS_AT_ONCE),
    "users of SCRAM": str(LIMITS.scram_users_max),
    "entities with quotas": str(LIMITS.quotas_max),
    "partitions of groups whose lag it looks at": str(watch.PARTITIONS_MAX),
    "TLS records without data, such as those with new keys": (
        f"{tls_connection.SILENT_MAX} of a connection"
    ),
    "work on the frames and TLS records of a connection while the event loop is busy": (
        f"{turns.SHARE_NS // 1000} microseconds of a turn"
    ),
    "bytes that are read before there is room for them": (
        f"{shared_resources.READ_BYTES // 1024} KiB of a connection"
    ),
    "connections to it without a request": (
        f"{http_server.UNASKED_MAX}, for {http_server.REQUEST_TIMEOUT_S:.0f} s each"
    ),
    "head of a request to it": f"{http_wire.READ_BYTES // 1024} KiB",
    "a message of OAUTHBEARER; of PLAIN and SCRAM": (
        f"{oauthbearer.MESSAGE_MAX // 1024} KiB; {mechanisms.PLAIN_MESSAGE_MAX // 1024} KiB"
    ),
    "tokens that wait for the check of their signature": (
        f"{token_verifier_thread.WAITING_BYTES_MAX // 1024**2} MiB"
    ),
    "wrong tokens of one address there": (
        f"{access.FAILURES_MAX} in {login_throttle.WINDOW_S:.0f} s"
    ),
    "lines of one event in the log": (f"{log_limits.LINES_MAX} in {log_limits.WINDOW_S:.0f} s"),
    "the admin port: [places](operating.md#when-many-ask)": (
        f"{min(PLACES)} to {max(PLACES)} for a kind of page"
    ),
}
"""Limits that are no settings -> what the table must say."""
WITHOUT_NUMBER = {
    "replies that a client leaves unread": "",
    "bytes, time and changes of one client: quotas": "none",
}


class Limit(Struct, frozen=True):
    name: str
    default: str
    beyond: str
    metric: str

    @property
    def keys(self) -> list[str]:
        return [key for key in QUOTED.findall(self.name) if key in FIELDS_BY_KEY]


def table() -> list[Limit]:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = page.partition("\n## Limits\n")[2].partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows if row[:1] == "|"]
    return [Limit(*row) for row in cells[2:]]


def amount(text: str) -> int:
    """The amount that the text begins with, in milliseconds or bytes where it has a unit; 0: no
    limit."""
    if text.startswith("no limit"):
        return 0
    found = AMOUNT.match(text)
    assert found is not None, text
    return int(found[1]) * UNITS[found[2] or ""]


@pytest.mark.parametrize("limit", table(), ids=lambda limit: limit.name)
def test_a_row_says_what_the_code_does(limit: Limit) -> None:
    quotas = set(quota_entities.KEYS)
    assert set(QUOTED.findall(limit.name)) <= set(FIELDS_BY_KEY) | quotas
    known = set(METRIC.findall((ROOT / "docs" / "metrics.md").read_text()))
    assert set(METRIC.findall(limit.metric)) <= known
    assert limit.metric == "" or METRIC.match(limit.metric) or limit.metric == "the same"
    assert all(code in ErrorCode.__members__ for code in CODE.findall(limit.beyond))
    if limit.keys:
        (key,) = limit.keys
        assert amount(limit.default) == FIELDS_BY_KEY[key].default
    else:
        assert limit.default == (WITHOUT_NUMBER | CONSTANTS)[limit.name]


def test_every_limit_is_in_the_table() -> None:
    rows = table()
    named = {key for limit in rows for key in limit.keys}
    limits = {
        key
        for key in FIELDS_BY_KEY
        if key.startswith(("max.connection", "groupd.authentication."))
        and not key.endswith(".overrides")
    }
    assert len(limits) == 5
    assert named >= limits
    assert set(CONSTANTS) | set(WITHOUT_NUMBER) <= {limit.name for limit in rows}


def test_other_numbers_of_the_page() -> None:
    failures = [limit.default for limit in table() if "authentication.failures" in limit.name]
    assert len(failures) == 2
    assert all(one.endswith(f" in {login_throttle.WINDOW_S:.0f} s") for one in failures)
    assert mechanisms.PLAIN_MESSAGE_MAX == scram.MESSAGE_MAX
    page = (ROOT / "docs" / "security.md").read_text()
    assert f"would take more than {sasl_gate.SLOWED_MAX_MS // 1000} seconds" in page
    assert (audit.WINDOW_S, audit.LINES_MAX) == (10, 100), "the section on the audit log"
