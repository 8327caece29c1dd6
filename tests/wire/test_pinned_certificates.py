"""Trust stores that name the certificates of clients themselves, not the CAs behind them: as in
Java every certificate there is trusted, whoever has signed it (`docs/spec/security.md#1.1`)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.certificates import client_context, keystore
from tests.support.daemon import Daemon, ends_well
from tests.support.wire_client import NoReply, WireClient

HOST = "127.0.0.1"
CA, CLIENTS = trustme.CA(), trustme.CA()
SUBJECT = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "alice")])
PLAIN = serialization.NoEncryption()


@dataclass
class Pinned:
    """A certificate with its key, as PEM."""

    certificate: str
    key: str

    def configure_cert(self, context: ssl.SSLContext, directory: Path) -> ssl.SSLContext:
        path = directory / "client.pem"
        path.write_text(self.certificate + self.key)
        context.load_cert_chain(path)
        return context


def self_signed(*extensions: x509.ExtensionType, key_id: bool = False) -> Pinned:
    """One more certificate of the same subject."""
    key = ec.generate_private_key(ec.SECP256R1())
    return signed(key, key, *extensions, key_id=key_id)


def issued_by(issuer: Pinned) -> Pinned:
    """A certificate of the same subject that the holder of another one has made."""
    signer = serialization.load_pem_private_key(issuer.key.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    return signed(ec.generate_private_key(ec.SECP256R1()), signer)


def signed(
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
    key_id: bool = False,
) -> Pinned:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(SUBJECT)
        .issuer_name(SUBJECT)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    if key_id:
        extensions = (*extensions, x509.SubjectKeyIdentifier.from_public_key(key.public_key()))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    made = builder.sign(signer, hashes.SHA256())
    pem = serialization.Encoding.PEM
    return Pinned(
        made.public_bytes(pem).decode(),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, PLAIN).decode(),
    )


def of_a_ca() -> Pinned:
    made = CLIENTS.issue_cert(common_name="bob")
    (pem,) = (blob.bytes().decode() for blob in made.cert_chain_pems)
    return Pinned(pem, made.private_key_pem.bytes().decode())


KNOWN = {
    "first": self_signed(),
    "second": self_signed(),
    "third": self_signed(),
    "with a key id": self_signed(key_id=True),
    "with another key id": self_signed(key_id=True),
    "a CA": self_signed(x509.BasicConstraints(ca=True, path_length=None), key_id=True),
    "no CA": self_signed(x509.BasicConstraints(ca=False, path_length=None)),
    "signed by a CA that is not there": of_a_ca(),
}
STRANGERS = {
    "of the same subject": self_signed(),
    "of the same subject, a CA": self_signed(x509.BasicConstraints(ca=True, path_length=None)),
    "of the CA that is not there": of_a_ca(),
    "signed by who is no CA": issued_by(KNOWN["no CA"]),
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("pinned")
    clients = directory / "clients.pem"
    clients.write_text("".join(one.certificate for one in KNOWN.values()))
    settings = {
        "listeners": f"SSL://{HOST}:0",
        "ssl.keystore.location": str(keystore(directory / "broker.pem", CA.issue_cert(HOST))),
        "ssl.truststore.location": str(clients),
        "ssl.client.auth": "required",
    }
    daemon = Daemon(directory, settings=settings)
    with ends_well(daemon):
        daemon.start()
        yield daemon.port


def is_served(port: int, pinned: Pinned, version: ssl.TLSVersion, directory: Path) -> bool:
    context = pinned.configure_cert(client_context(CA, version=version), directory)
    try:
        with WireClient(HOST, port, tls=context) as client:
            return bool(client.call("DescribeCluster", 0)["cluster_id"])
    except (NoReply, OSError):
        return False


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", [*KNOWN, *STRANGERS])
def test_who_is_in_the_trust_store_gets_in(
    port: int, name: str, version: ssl.TLSVersion, tmp_path: Path
) -> None:
    """SE-05."""
    pinned = {**KNOWN, **STRANGERS}[name]
    assert is_served(port, pinned, version, tmp_path) == (name in KNOWN)
