"""The cluster id: 16 random bytes as 22 characters of base64url, as Kafka writes UUIDs."""

from __future__ import annotations

import base64
import os


def new_cluster_id() -> str:
    """Never starts with a dash, which command lines would take for an option."""
    while True:
        value = base64.urlsafe_b64encode(os.urandom(16))[:22].decode()
        if not value.startswith("-"):
            return value
