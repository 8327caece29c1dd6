"""TLS records that no TLS library would send, under the keys of the client: of one byte, empty,
with new keys between them, and, if the line is spoilt, of wrong types, cut, or not encrypted."""

from __future__ import annotations

import random
import ssl
import tempfile
from pathlib import Path

from tests.fuzz.lines import TlsLine, garbage
from tests.support.tls_keys import DATA, HANDSHAKE, ClientKeys

ALERT = 21
_GOODBYE = b"\x01\x00"
SILENT_MOST = 40
"""Records without data that an honest client may send; groupd ends a connection after 200."""
_SIZES = ((1,), (1, 2, 7), (1, 7, 100), (100, 16_384))
"""Bytes of data in the records of a line."""
_WRONG_KINDS = (0, 20, ALERT, HANDSHAKE, 24, 99)
_BODIES = (
    _GOODBYE,
    b"\x02\x28",  # Handshake failed.
    b"\x01\x64",  # No renegotiation.
    b"\x00\x00\x00\x00",  # Hello request: the client wants a handshake anew.
    b"\x01\x00\x00\x00",  # A hello without anything.
    b"\x18\x00\x00\x01\x07",  # New keys, but of a kind that does not exist.
    b"",
)


class RawTlsLine(TlsLine):
    """After an ordinary handshake of TLS 1.3 it makes the records itself, from a seed. `wrong`:
    some are such that groupd may end the connection; otherwise all data must be taken."""

    def __init__(self, address: tuple[str, int], ca: str, seed: int, *, wrong: bool) -> None:
        self._dice = random.Random(seed)
        self._file = Path(tempfile.mkstemp(prefix="groupd-fuzz-keys-")[1])
        self._keys: ClientKeys | None = None
        self._silent = 0
        self._sizes = self._dice.choice(_SIZES)
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.keylog_filename = str(self._file)
        super().__init__(address, context)
        self._wrong = self.spoilt = wrong

    def send(self, data: bytes) -> int:
        if self._left or not self.open:
            raise BlockingIOError
        if self._keys is None:
            self._keys = ClientKeys(self._file)
        at = 0
        for _ in range(self._dice.choice((1, 16, 500))):
            size = self._dice.choice(self._sizes)
            self._left += self._between()
            self._left += self._keys.record(DATA, data[at : at + size])
            at = min(at + size, len(data))
            if at == len(data):
                break
        self.flush()
        return at

    def _between(self) -> bytes:
        """What comes before the next record with data; mostly nothing."""
        keys, dice = self._keys, self._dice
        assert keys is not None
        if self._wrong and dice.random() < 0.02:
            made = keys.record(dice.choice(_WRONG_KINDS), dice.choice(_BODIES))
            return dice.choice((made, made[: dice.randrange(len(made))], garbage(dice)))
        if self._silent >= SILENT_MOST or dice.random() > 0.05:
            return b""
        self._silent += 1
        return keys.new_keys() if dice.random() < 0.3 else keys.record(DATA, b"")

    def _gather(self) -> None:
        """OpenSSL must not write any more: it does not know which records were sent."""
        if self._keys is None:
            super()._gather()
        else:
            self._out.read()

    def send_end(self) -> None:
        """Ends with the goodbye of TLS."""
        if self._keys is None:
            super().send_end()
            return
        self._left += self._keys.record(ALERT, _GOODBYE)
        self.flush()
        super(TlsLine, self).send_end()

    def close(self, *, reset: bool) -> None:
        super().close(reset=reset)
        self._file.unlink(missing_ok=True)
