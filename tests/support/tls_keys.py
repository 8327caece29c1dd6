"""Records of TLS 1.3 that no TLS library would send, under the keys of a client (RFC 8446, sections
5.2, 7.1 and 7.2)."""

from __future__ import annotations

import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HANDSHAKE, DATA = 22, 23
CIPHER = "TLS_AES_256_GCM_SHA384"
_UPDATE_BOTH = b"\x18\x00\x00\x01\x01"


class ClientKeys:
    """The keys of a client, with `CIPHER`, that has sent nothing behind its handshake. `key_log`:
    the file that its context writes."""

    def __init__(self, key_log: Path) -> None:
        lines = [line.split() for line in key_log.read_text().splitlines()]
        self._use(next(bytes.fromhex(line[2]) for line in lines if "CLIENT_TRAFFIC" in line[0]))

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._key = AESGCM(_expanded(secret, b"key", 32))
        self._iv = int.from_bytes(_expanded(secret, b"iv", 12))
        self._sent = 0

    def record(self, kind: int, body: bytes) -> bytes:
        plain = body + bytes([kind])
        head = b"\x17\x03\x03" + struct.pack(">H", len(plain) + 16)
        nonce = (self._iv ^ self._sent).to_bytes(12)
        self._sent += 1
        return head + self._key.encrypt(nonce, plain, head)

    def new_keys(self) -> bytes:
        """The record that announces new keys and asks for those of the other side; what follows
        has the new ones."""
        made = self.record(HANDSHAKE, _UPDATE_BOTH)
        self._use(_expanded(self._secret, b"traffic upd", 48))
        return made


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    label = b"tls13 " + label
    info = struct.pack(">HB", size, len(label)) + label + b"\x00"
    return HKDFExpand(hashes.SHA384(), size, info).derive(secret)
