"""Streams for a listener that wants SASL: behind a login, in the middle of one, without one."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.fuzz.mutation import Mutator
from tests.support.raw import api_versions, frame
from tests.support.sasl_client import PLAIN_ALICE, plain_config
from tests.support.sasl_frames import authenticate, handshake
from tests.support.scram_client import ScramClient

LISTENER = "SASL_PLAINTEXT"
SETTINGS = {
    "listeners": f"PLAINTEXT://127.0.0.1:0,{LISTENER}://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_config(),
    # All connections come from one address, and most logins fail.
    "groupd.authentication.failures.per.ip": "0",
}


class Login(NamedTuple):
    """`sound`: what follows it is served, and every reply has a correlation id. After a handshake
    of version 0 replies have none."""

    data: bytes
    sound: bool


def login(chance: random.Random, mutator: Mutator) -> Login:
    """What a connection begins with."""
    dice = chance.random()
    whole = _frames(chance, "PLAIN", PLAIN_ALICE)
    if dice < 0.5:
        return Login(b"".join(map(frame, whole)), True)
    if dice < 0.6:
        return Login(b"", False)
    if dice < 0.8:
        mechanism = chance.choice(("SCRAM-SHA-256", "SCRAM-SHA-512"))
        first = ScramClient(mechanism, chance.choice(("alice", "nobody")), "secret").first()
        whole = [*_frames(chance, mechanism, first), authenticate(b"c=biws,r=x,p=AAAA", 1)]
    frames = []
    for one in whole:
        changed = bytearray(one)
        while chance.random() < 0.4:
            mutator.change(changed)
        frames += [bytes(changed)] * chance.choice((1, 1, 1, 2))
    if chance.random() < 0.1:
        chance.shuffle(frames)
    return Login(b"".join(map(frame, frames)), False)


def _frames(chance: random.Random, mechanism: str, token: bytes) -> list[bytes]:
    """A handshake and the first token, now and then behind ApiVersions."""
    made = [handshake(mechanism, 1), authenticate(token, chance.choice((0, 1)))]
    asked = api_versions(chance.getrandbits(31), chance.randint(0, 2))[4:]
    return [asked, *made] if chance.random() < 0.3 else made
