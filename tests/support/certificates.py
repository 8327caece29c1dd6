"""Certificates for tests, in PEM files."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


def key_pem(certificate: trustme.LeafCert, password: str = "") -> str:
    """The private key, encrypted if there is a password."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password.encode())
    pem = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, pem, encryption).decode()


def chain_pem(certificate: trustme.LeafCert) -> str:
    return "".join(blob.bytes().decode() for blob in certificate.cert_chain_pems)


def keystore(path: Path, certificate: trustme.LeafCert) -> Path:
    """Write the chain and key to `path`."""
    path.write_text(chain_pem(certificate) + key_pem(certificate))
    return path


def truststore(path: Path, *cas: trustme.CA) -> Path:
    path.write_text("".join(ca.cert_pem.bytes().decode() for ca in cas))
    return path


def client_context(
    ca: trustme.CA,
    certificate: trustme.LeafCert | None = None,
    version: ssl.TLSVersion | None = None,
) -> ssl.SSLContext:
    """The TLS context of a client that trusts `ca` and shows `certificate`. `version`: the only one
    it offers."""
    context = ssl.create_default_context()
    context.check_hostname = False
    ca.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def client_hello(context: ssl.SSLContext) -> bytes:
    """What a client sends first, as bytes."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()
