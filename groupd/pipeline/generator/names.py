"""Ids and addresses that look like those of real clients, drawn from a seeded source."""

from __future__ import annotations

import base64
import uuid
from random import Random


def member_uuid(rng: Random) -> str:
    """A member id of the consumer protocol: a UUID in 22 characters of base64url."""
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


def classic_member_id(client_id: str, rng: Random) -> str:
    """A member id such as a broker gives to a member of the classic protocol."""
    return f"{client_id}-{uuid.UUID(bytes=rng.randbytes(16), version=4)}"


def client_host(number: int) -> str:
    return f"/10.1.{number // 250}.{number % 250 + 1}"
