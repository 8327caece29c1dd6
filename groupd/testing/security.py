"""What a secured broker in tests needs: certificates, tokens, users and ACLs, made on the fly.

`Secured` makes the settings of the broker and a `Login` for each user; `client_security` spells a
login as each client library takes it. Certificates come from trustme, which is only needed for TLS.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.json import encode

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.suggest import did_you_mean
from groupd.protocol.messages.acls import AclBinding

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

ProtocolName: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
MechanismName: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

SECURITY_PROTOCOLS: tuple[ProtocolName, ...] = (
    "PLAINTEXT",
    "SSL",
    "SASL_PLAINTEXT",
    "SASL_SSL",
)
PLAIN: MechanismName = "PLAIN"
OAUTHBEARER: MechanismName = "OAUTHBEARER"
MECHANISMS: tuple[MechanismName, ...] = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
DEFAULT_MECHANISM: MechanismName = "SCRAM-SHA-512"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ISSUER, AUDIENCE, KEY_ID = "https://groupd.test", "groupd", "groupd-test"
TOKEN_LIFETIME_S = 3600


class SecurityOptions(Struct, frozen=True):
    """How clients log in, and what they may do. `users`: name -> password. If `acls` is None, there
    is no authoriser, and every client may do everything."""

    protocol: ProtocolName = "PLAINTEXT"
    users: Mapping[str, str] = field(default_factory=dict)
    mechanisms: tuple[MechanismName, ...] = MECHANISMS
    acls: tuple[AclBinding, ...] | None = None


class Login(Struct, frozen=True):
    """How one user connects. `user` is None for a client that does not log in. `ca_file` is a PEM
    file with the certificate that the client has to trust; None without TLS. `cert_file` and
    `key_file` hold the client's own certificate, if that identifies the user. `token` is for
    OAUTHBEARER."""

    protocol: ProtocolName
    user: str | None = None
    password: str = ""
    mechanism: MechanismName | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    token: str = ""


class Secured:
    """The security of one broker on `host`: its settings, files and users. Raises HarnessError for
    options that do not fit together."""

    def __init__(self, options: SecurityOptions, host: str) -> None:
        protocol = options.protocol
        self.protocol = protocol
        self.users = dict(options.users)
        self.mechanisms = options.mechanisms
        self.acls = options.acls
        self._host = host
        unknown = [one for one in self.mechanisms if one not in MECHANISMS]
        if unknown:
            hint = did_you_mean(unknown[0], MECHANISMS)
            raise HarnessError(f"mechanism {unknown[0]!r}{hint}: {', '.join(MECHANISMS)}")
        if self.users and protocol == "PLAINTEXT":
            raise HarnessError("users need security= SSL, SASL_PLAINTEXT or SASL_SSL")
        if self.sasl and not self.mechanisms:
            raise HarnessError(f"security={protocol!r} needs at least one mechanism")

    @property
    def tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @cached_property
    def folder(self) -> Path:
        """The directory of the certificates and keys. Only its owner may read it."""
        return Path(tempfile.mkdtemp(prefix="groupd-security-"))

    def close(self) -> None:
        """Delete the files."""
        if "folder" in vars(self):
            shutil.rmtree(self.folder, ignore_errors=True)

    # The broker -----------------------------------------------------------------------------

    def config(self, listen: tuple[str, int]) -> dict[str, str]:
        """The broker's settings, by Kafka's names. They are empty for PLAINTEXT without ACLs."""
        made = {} if self.acls is None else {"authorizer.class.name": AUTHORIZER}
        if self.protocol == "PLAINTEXT":
            return made
        host, port = listen
        name = f"listener.name.{self.protocol.lower()}"
        made |= {"listeners": f"{self.protocol}://{f'[{host}]' if ':' in host else host}:{port}"}
        if self.tls:
            made |= {
                "ssl.keystore.location": str(self._server_pem),
                "ssl.truststore.location": self.ca_file,
            }
        if self.protocol == "SSL" and self.users:
            made[f"{name}.ssl.client.auth"] = "required"
            made["ssl.principal.mapping.rules"] = r"RULE:^CN=([^,]+),.*$/$1/,DEFAULT"
        if self.sasl:
            made["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        if self.sasl and PLAIN in self.mechanisms:
            users = " ".join(f"user_{_quoted_key(u)}={quoted(p)}" for u, p in self.users.items())
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            made[f"{name}.plain.sasl.jaas.config"] = f"{module} required {users};"
        if self.sasl and OAUTHBEARER in self.mechanisms:
            made |= {
                "sasl.oauthbearer.jwks.endpoint.url": self._jwks.as_uri(),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
            }
        return made

    @property
    def scram_mechanisms(self) -> tuple[MechanismName, ...]:
        """The mechanisms whose users the broker keeps in its store."""
        return tuple(one for one in self.mechanisms if self.sasl and one.startswith("SCRAM"))

    # Clients --------------------------------------------------------------------------------

    def login(self, user: str | None, mechanism: MechanismName | None) -> Login:
        """The login of `user`; None = without a login. `mechanism`: None = a default. Raises
        HarnessError for an unknown user, and for a mechanism that is not served."""
        if user is not None and user not in self.users:
            hint = did_you_mean(user, self.users)
            raise HarnessError(f"no user {user!r}{hint}; users: {', '.join(self.users) or 'none'}")
        if mechanism is not None and not (self.sasl and mechanism in self.mechanisms):
            served = ", ".join(self.mechanisms) if self.sasl else "none"
            raise HarnessError(f"mechanism {mechanism!r} is not served; served: {served}")
        if user is None or not self.sasl:
            mechanism = None
        elif mechanism is None:
            chosen = DEFAULT_MECHANISM if DEFAULT_MECHANISM in self.mechanisms else None
            mechanism = chosen or self.mechanisms[0]
        certified = self.protocol == "SSL" and user is not None
        cert_file, key_file = self._client_files(str(user)) if certified else (None, None)
        return Login(
            self.protocol,
            user,
            self.users.get(user or "", ""),
            mechanism,
            self.ca_file if self.tls else None,
            cert_file,
            key_file,
            self.token(str(user)) if mechanism == OAUTHBEARER else "",
        )

    # Certificates ---------------------------------------------------------------------------

    @cached_property
    def _authority(self) -> Any:
        try:
            import trustme
        except ImportError:
            raise HarnessError(
                "TLS in tests needs trustme: pip install 'groupd[testing]'"
            ) from None
        return trustme.CA()

    @cached_property
    def ca_file(self) -> str:
        """The certificate that clients have to trust, as PEM."""
        path = self.folder / "ca.pem"
        self._authority.cert_pem.write_to_path(path)
        return str(path)

    @cached_property
    def _server_pem(self) -> Path:
        names = dict.fromkeys((self._host, "localhost", "127.0.0.1"))
        issued = self._authority.issue_cert(*names)
        path = self.folder / "server.pem"
        path.touch(0o600)
        path.write_bytes(
            b"".join([one.bytes() for one in (issued.private_key_pem, *issued.cert_chain_pems)])
        )
        return path

    def _client_files(self, user: str) -> tuple[str, str]:
        name = f"client-{list(self.users).index(user)}"
        cert_file, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        if not cert_file.exists():
            issued = self._authority.issue_cert(f"{name}.test", common_name=user)
            key_file.touch(0o600)
            key_file.write_bytes(_pkcs8(issued.private_key_pem.bytes()))
            cert_file.write_bytes(b"".join([one.bytes() for one in issued.cert_chain_pems]))
        return str(cert_file), str(key_file)

    # Tokens ---------------------------------------------------------------------------------

    @cached_property
    def _signing_key(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric import rsa

        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def _jwks(self) -> Path:
        from jwt.algorithms import RSAAlgorithm

        key = RSAAlgorithm.to_jwk(self._signing_key.public_key(), as_dict=True)
        path = self.folder / "jwks.json"
        path.write_bytes(encode({"keys": [{**key, "kid": KEY_ID, "use": "sig", "alg": "RS256"}]}))
        return path

    def token(self, subject: str, lifetime_s: int = TOKEN_LIFETIME_S) -> str:
        """A JWT for `subject` that is valid for `lifetime_s` seconds from now."""
        import jwt

        now = int(time.time())
        claims = {
            "sub": subject,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + lifetime_s,
        }
        return jwt.encode(claims, self._signing_key, "RS256", {"kid": KEY_ID})

    def token_file(self, user: str) -> str:
        """The path of a file with a token of `user`, for clients that read tokens from files."""
        path = self.folder / f"token-{list(self.users).index(user)}.jwt"
        path.touch(0o600)
        path.write_text(self.token(user))
        return str(path)


def _pkcs8(pem: bytes) -> bytes:
    """A private key in the only form that Java reads."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def quoted(text: str) -> str:
    """The text as a value of `sasl.jaas.config`."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted_key(text: str) -> str:
    if not all(one.isalnum() or one in "._-@" for one in text):
        raise HarnessError(f"user {text!r}: PLAIN takes letters, digits and . _ - @ only")
    return text
