"""What an order is, and what is wrong with one."""

from __future__ import annotations

import json
from dataclasses import dataclass


class BadOrder(ValueError):
    """It cannot be billed, now or later; `str()` says why."""


@dataclass(frozen=True)
class Order:
    order_id: str
    cents: int


def parse(data: bytes | None) -> Order:
    """An order from a record's value. Raises BadOrder."""
    try:
        found = json.loads(data or b"")
    except ValueError:
        raise BadOrder("not JSON") from None
    if not isinstance(found, dict):
        raise BadOrder("not an object")
    order_id, cents = found.get("id"), found.get("cents")
    if not isinstance(order_id, str) or not order_id:
        raise BadOrder("no id")
    if not isinstance(cents, int) or isinstance(cents, bool) or cents <= 0:
        raise BadOrder("no positive number of cents")
    return Order(order_id, cents)
