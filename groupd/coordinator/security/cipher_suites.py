"""`ssl.cipher.suites`: IANA names, as Kafka's settings have them, for OpenSSL."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence

from groupd.coordinator.config.settings import ConfigError

KEY = "ssl.cipher.suites"

_TLS_1_3 = re.compile(r"TLS_(AES|CHACHA20)_[A-Z0-9_]+")


def choose_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Allow only these suites; none: leave the choice to OpenSSL. Those of TLS 1.3 cannot be chosen
    one by one. Raises ConfigError."""
    if not suites:
        return
    newest = [name for name in suites if _TLS_1_3.fullmatch(name)]
    older = {name: openssl_name(name) for name in suites if name not in newest}
    try:
        if older:
            context.set_ciphers(":".join(older.values()))
    except ssl.SSLError:
        raise ConfigError(f"{KEY}={','.join(suites)}: OpenSSL knows none of them") from None
    known = {suite["name"] for suite in context.get_ciphers()}
    for name in suites:
        if (name if name in newest else older[name]) not in known:
            raise ConfigError(f"{KEY}: OpenSSL does not know {name}, or does not allow it")
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def openssl_name(name: str) -> str:
    """ECDHE-RSA-AES128-GCM-SHA256 from TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. Names of OpenSSL stay
    as they are."""
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(128|256)_(CBC_)?", r"AES\1_", cipher)
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")
