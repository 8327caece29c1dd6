"""Requests to nodes that may be dead, frozen or wrong: an answer counts whenever it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tests.support.kio_entities import Plain
from tests.support.wire_client import NoReply, WireClient

ANSWER_S = 1.0
"""How long an answer is waited for. Later answers are listened for all the same: a node that stood
still must not acknowledge anything when it goes on."""

LATE_S = 0.001
LATE_MAX = 50

Address = tuple[str, int]
Heard = Callable[[Plain, bool], None]
"""(the reply, whether it came late)."""


class Caller:
    """One connection, made anew when it is needed. Not for several threads."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._client: WireClient | None = None
        self._at: Address | None = None
        self._late: list[tuple[WireClient, Heard]] = []

    def call(
        self, at: Address, api: str, version: int, fields: Mapping[str, Any], heard: Heard
    ) -> bool:
        """Ask the node at `at`; `heard` is told of the answer, now or later. False: there is none
        yet."""
        if self._at != at:
            self.disconnect()
        try:
            if self._client is None:
                self._client, self._at = WireClient(*at, self._client_id), at
            self._client.send(api, version, fields)
        except OSError:
            self.disconnect()
            return False
        try:
            reply = self._client.receive(ANSWER_S)
        except NoReply as error:
            if "closed" not in str(error):
                self._late.append((self._client, heard))
                self._client = None
            self.disconnect()
            return False
        except OSError:
            self.disconnect()
            return False
        heard(reply, False)
        return True

    def hear(self) -> None:
        """Take in what has come late."""
        for one in list(self._late):
            client, heard = one
            try:
                reply = client.receive(LATE_S)
            except NoReply as error:
                if "closed" not in str(error):
                    continue
            except OSError:
                pass
            else:
                heard(reply, True)
            self._late.remove(one)
            client.close()
        while len(self._late) > LATE_MAX:
            self._late.pop(0)[0].close()

    def disconnect(self) -> None:
        if self._client is not None:
            with suppress(OSError):
                self._client.close()
        self._client = self._at = None

    def close(self) -> None:
        self.disconnect()
        for client, _ in self._late:
            client.close()
        self._late.clear()


def now() -> float:
    return time.monotonic()
