"""The listeners of an attacked groupd, and who may log in there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import trustme

from tests.attack.victim import Door
from tests.support.certificates import keystore, truststore
from tests.support.daemon import Daemon
from tests.support.sasl_client import ALL_MECHANISMS, PASSWORDS, plain_config, valid_token
from tests.support.tokens import AUDIENCE, ISSUER, jwks, private_key, public_entry
from tests.support.wire_client import WireClient

PLAINTEXT, SASL_PLAINTEXT, SSL, SASL_SSL = "kafka", "sasl_plaintext", "ssl", "sasl_ssl"
"""The names of the listeners in the ready line."""
METERED, METERED_PASSWORD = "metered", "metered-pw"
"""A user who has a quota."""
GUESSED, GUESSED_PASSWORD = "guessed", "guessed-pw"
"""A user whose password attackers guess."""
ADMIN_TOKEN = "the-token-of-an-honest-admin"
QUOTA = 20_000
"""Of that user: bytes a second that it may produce."""
_DAYS_S = 30 * 24 * 3600


def settings(directory: Path, passwords: Mapping[str, str] = PASSWORDS) -> dict[str, str]:
    """The settings of four listeners, two of them with a login by every mechanism. `passwords`: of
    PLAIN. Writes certificates and keys into the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    ca = trustme.CA()
    broker = keystore(directory / "broker.pem", ca.issue_cert("127.0.0.1"))
    truststore(directory / "ca.pem", ca)
    keys = directory / "jwks.json"
    keys.write_bytes(jwks(public_entry(private_key("ES256"), "k1")))
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
    made = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "ssl.keystore.location": str(broker),
        "sasl.enabled.mechanisms": ",".join(ALL_MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    for name in (SASL_PLAINTEXT, SASL_SSL):
        made[f"listener.name.{name}.plain.sasl.jaas.config"] = plain_config(passwords)
    return made


def attacked(directory: Path) -> dict[str, str]:
    """The same with more users, and with a token for the admin port."""
    more = {METERED: METERED_PASSWORD, GUESSED: GUESSED_PASSWORD}
    made = settings(directory, {**PASSWORDS, **more})
    file = directory / "tokens"
    file.write_text(f"admin {ADMIN_TOKEN}\n")
    file.chmod(0o600)
    return {**made, "groupd.admin.token.file": str(file)}


def limit(daemon: Daemon) -> None:
    """Gives the user with a quota its quota."""
    entity = ({"entity_type": "user", "entity_name": METERED},)
    operations = ({"key": "producer_byte_rate", "value": float(QUOTA), "remove": False},)
    with WireClient(daemon.host, daemon.port) as client:
        reply = client.call(
            "AlterClientQuotas",
            1,
            entries=({"entity": entity, "ops": operations},),
            validate_only=False,
        )
    assert [one["error_code"] for one in reply["entries"]] == [0]


def tokens() -> dict[str, str]:
    """Valid tokens of OAUTHBEARER, by user."""
    return {user: valid_token(_DAYS_S, user) for user in ("alice", "bob")}


def doors(daemons: Sequence[Daemon]) -> tuple[Door, ...]:
    """The doors of started daemons."""
    return tuple(
        Door(
            *((one.host, one.ports[name]) for name in (SSL, SASL_PLAINTEXT, SASL_SSL)),
            (one.host, one.admin_port),
        )
        for one in daemons
    )
