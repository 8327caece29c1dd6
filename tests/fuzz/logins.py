"""Scripts for listeners that want SASL: behind a login, in the middle of one, without one, and with
logins that follow on the open connection.

alice may do everything, bob little: a probe at the end tells whom the broker takes a client for.
"""

from __future__ import annotations

import random
import struct
from binascii import Error
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tests.fuzz.listeners import REST_S, SESSION_S
from tests.fuzz.mutation import Mutator, Stream
from tests.fuzz.talk import Phase, Probe, Script
from tests.support.raw import api_versions, frame, request, string
from tests.support.sasl_client import PASSWORDS
from tests.support.sasl_frames import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    authenticate,
    handshake,
    read_authenticated,
)
from tests.support.scram_client import ScramClient
from tests.support.tokens import message

DESCRIBE_ACLS = 29
DENIED, OUT_OF_TURN = 31, 34
ALICE, BOB = "alice", "bob"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
WITHOUT = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
"""The APIs of a login: a handshake begins one again, so the next frame would end the connection."""

_FEW = 10
"""The most frames of a short stream."""

SERVED = {ALICE: frozenset({0}), BOB: frozenset({DENIED})}
NEVER: frozenset[int] = frozenset()
NOT_YET = frozenset({OUT_OF_TURN})


class Made(NamedTuple):
    """A script. `kind`: the name that it is counted by. `streams`: the streams in it."""

    script: Script
    kind: str
    streams: list[Stream]


class Spoiler:
    """Changes one step of a login: its token, or its frames. If the login is not `spoilt`,
    nothing."""

    def __init__(self, chance: random.Random, mutator: Mutator, *, spoilt: bool) -> None:
        self._chance, self._mutator = chance, mutator
        self._step = chance.randrange(2) if spoilt else -1
        self._inside = chance.random() < 0.5

    def token(self, step: int, token: bytes) -> bytes:
        return self._changed(token) if self._inside and step == self._step else token

    def frames(self, step: int, frames: list[bytes]) -> list[bytes]:
        if self._inside or step != self._step:
            return frames
        made = []
        for one in frames:
            changed = self._changed(one) if self._chance.random() < 0.7 else one
            made += [changed] * self._chance.choice((1, 1, 1, 2))
        if self._chance.random() < 0.1:
            self._chance.shuffle(made)
        return made

    def _changed(self, data: bytes) -> bytes:
        made = bytearray(data)
        self._mutator.change(made)
        while self._chance.random() < 0.4:
            self._mutator.change(made)
        return bytes(made)


class Logins:
    """Makes the scripts. `tokens`: valid ones of OAUTHBEARER, by user."""

    def __init__(
        self, chance: random.Random, mutator: Mutator, tokens: dict[str, str], most: int
    ) -> None:
        self._chance, self._mutator = chance, mutator
        self._tokens = tokens
        self._most = most
        self._streams: list[Stream] = []

    def script(self, *, may_rest: bool) -> Made:
        """A script with or without a login. `may_rest`: the connection may do nothing for
        seconds."""
        chance = self._chance
        self._streams = []
        dice = chance.random()
        if dice < 0.4:
            return self._logged_in(ALICE, "PLAIN")
        if dice < 0.6:
            return self._logged_in(BOB, chance.choice(MECHANISMS))
        if dice < 0.65:
            phases = [Phase(self._stream().whole)]
            return self._made("without a login", phases, NOT_YET)
        if dice < 0.8:
            phases = self._login(BOB, chance.choice(MECHANISMS), spoilt=True)
            phases.append(Phase(self._stream().whole))
            allowed = SERVED[BOB] | {OUT_OF_TURN}
            return self._made("spoilt login", phases, allowed, sound=False)
        return self._again(may_rest)

    def raw(self, data: bytes, seed: int) -> Made:
        """A raw stream before a login, or behind one."""
        self._streams = []
        if seed & 2:
            return self._made("raw frames before a login", [Phase(lambda _: data)], NOT_YET)
        phases = [*self._login(ALICE, "PLAIN"), Phase(lambda _: data)]
        return self._made("raw frames behind a login", phases, SERVED[ALICE])

    def _logged_in(self, user: str, mechanism: str) -> Made:
        phases = [*self._login(user, mechanism), Phase(self._stream(self._most).whole)]
        return self._made(f"{mechanism} as {user}", phases, SERVED[user])

    def _again(self, may_rest: bool) -> Made:
        """Logs in, is served, logs in again."""
        chance = self._chance
        user, mechanism = chance.choice((ALICE, BOB)), chance.choice(MECHANISMS)
        phases = [*self._login(user, mechanism), self._stream_with_end()]
        kinds = ["again", "again and again", "spoilt", "as another", "with another"]
        if may_rest:
            kinds += ["again after a rest", "too late", "too late, but again"] * 2
        kind = chance.choice(kinds)
        allowed, sound = SERVED[user], True
        other = BOB if user == ALICE else ALICE
        match kind:
            case "again":
                phases += self._login(user, mechanism)
            case "again and again":
                # The second one comes too early, which is answered with an error.
                phases += [*self._login(user, mechanism), self._stream_with_end()]
                phases += self._login(user, "PLAIN")
            case "spoilt":
                user = BOB
                phases = [*self._login(BOB, mechanism), self._stream_with_end()]
                phases += self._login(BOB, mechanism, spoilt=True)
                allowed, sound = SERVED[BOB] | {OUT_OF_TURN}, False
            case "as another":
                phases += self._login(other, mechanism)
                allowed = NEVER
            case "with another":
                phases += self._login(
                    user, chance.choice([m for m in MECHANISMS if m != mechanism])
                )
                allowed = NEVER
            case "again after a rest":
                phases += [*self._login(user, mechanism), self._stream_with_end()]
                phases += _rested(self._login(user, mechanism), REST_S)
            case "too late":
                phases += _rested([Phase(self._stream().whole)], SESSION_S + 0.2)
                allowed = NEVER
            case "too late, but again":
                phases += _rested(self._login(user, mechanism), SESSION_S + 0.2)
        most = self._most if sound and allowed else _FEW
        phases.append(Phase(self._stream(most).whole))
        return self._made(f"login: {kind}", phases, allowed, sound=sound)

    def _made(
        self, kind: str, phases: Sequence[Phase], allowed: frozenset[int], *, sound: bool = True
    ) -> Made:
        """The script of these phases, with the probe at the end."""
        correlation = struct.pack(">I", self._chance.getrandbits(31) | 1 << 31)
        probe = frame(describe_acls(correlation))
        script = Script((*phases, Phase(lambda _: probe)), sound, Probe(correlation, allowed))
        return Made(script, kind, self._streams)

    def _stream(self, most: int = _FEW) -> Stream:
        """A stream of at most so many frames: few where most likely nobody will look at it."""
        stream = self._mutator.stream(self._chance.randint(1, most), WITHOUT)
        self._streams.append(stream)
        return stream

    def _stream_with_end(self) -> Phase:
        """A stream with a last frame, for whose reply the next phase may wait. Most likely nothing
        in it ends the connection."""
        stream = self._mutator.stream(self._chance.randint(1, self._most), WITHOUT, fresh=0)
        self._streams.append(stream)
        data = stream.data + api_versions(self._chance.getrandbits(31))
        return Phase(lambda _: data)

    # One login ----------------------------------------------------------------------------

    def _login(self, user: str, mechanism: str, *, spoilt: bool = False) -> list[Phase]:
        chance = self._chance
        spoiler = Spoiler(chance, self._mutator, spoilt=spoilt)
        version = chance.choice((0, 1))
        before = []
        if chance.random() < 0.3 and not self._streams:
            before = [api_versions(chance.getrandbits(31), chance.randint(0, 2))[4:]]
        scram = None
        if mechanism in SCRAM:
            scram = ScramClient(mechanism, user, PASSWORDS[user], f"{chance.getrandbits(64):x}")
            token = scram.first()
        elif mechanism == "PLAIN":
            token = f"\0{user}\0{PASSWORDS[user]}".encode()
        else:
            token = message(self._tokens[user])
        token = spoiler.token(0, token)
        frames = [*before, handshake(mechanism, 1), authenticate(token, version)]
        data = _joined(spoiler.frames(0, frames))
        phases = [Phase(lambda _: data)]
        if scram is not None:
            phases.append(Phase(partial(_final, scram, version, spoiler), waits=True))
        return phases


def _final(scram: ScramClient, version: int, spoiler: Spoiler, reply: bytes) -> bytes:
    try:
        token = scram.final(read_authenticated(reply[4:], version).token)
    except (struct.error, ValueError, KeyError, AssertionError, Error):
        # The first message was refused.
        token = b"c=biws,r=x,p=AAAA"
    frames = [authenticate(spoiler.token(1, token), version)]
    return _joined(spoiler.frames(1, frames))


def _joined(frames: Sequence[bytes]) -> bytes:
    return b"".join(map(frame, frames))


def _rested(phases: list[Phase], rest_s: float) -> list[Phase]:
    first, *more = phases
    return [first._replace(waits=True, rest_s=rest_s), *more]


def describe_acls(correlation: bytes) -> bytes:
    """DescribeAcls v1 of ACLs that nobody has made."""
    topic, literal, every = b"\x02", b"\x03", b"\x01"
    body = topic + string("probed") + literal + struct.pack(">hh", -1, -1) + every * 2
    (number,) = struct.unpack(">i", correlation)
    return request(DESCRIBE_ACLS, 1, number, body)
