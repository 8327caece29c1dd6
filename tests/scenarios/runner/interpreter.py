"""Runs a scenario on a backend: command by command, each with the lines that it leads to.

Own reply first (`parked` when there is none yet), then replies that other, parked requests now
get, in the order in which they were sent, then the core's inner facts. What is expected is used
only to know how long to wait for what.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.scenarios.runner.backend import Backend, Ticket
from tests.scenarios.runner.command import Command, parse_command
from tests.scenarios.runner.parser import INNER, Block, Scenario
from tests.scenarios.runner.replies import bind_member, bind_producer, show_reply
from tests.scenarios.runner.requests import VERBS, make_ticket

PARKED = "parked"
CORE_ONLY = (
    "DENY",
    "ALLOW-ALL",
    "APPENDS",
    "TASKS",
    "COORDINATOR",
    "SETTING",
    "RACKS",
    "TARGET",
    "ASSIGNOR",
    "RECORD",
    "TIMERS",
    "PERSISTER",
)


class Execution:
    """One scenario on one backend."""

    def __init__(self, scenario: Scenario, backend: Backend) -> None:
        self._backend = backend
        self._parked: list[Ticket] = []
        self._hints: list[str] = []
        for name, partitions in scenario.pairs("topics").items():
            backend.create_topic(name, int(partitions))
        backend.inner()

    def run(self, block: Block, expected: Sequence[str]) -> list[str]:
        """The lines that the block's commands lead to."""
        self._hints = [line for line in expected if not line.startswith((INNER, " "))]
        lines: list[str] = []
        for text in block.commands:
            if not text.startswith("#"):
                lines += self._run(parse_command(text))
        return lines

    def _run(self, command: Command) -> list[str]:
        own: list[Ticket] = []
        lines: list[str] = []
        if command.verb in VERBS:
            ticket = self._request(command)
            if ticket.reply is None:
                self._parked.append(ticket)
                lines.append(f"{command.label}: {PARKED}")
            else:
                own.append(ticket)
        else:
            lines += self._act(command)
        answered = own + self._released()
        for ticket in answered:
            bind_member(ticket, self._backend.names)
            bind_producer(ticket, self._backend.names)
        for ticket in answered:
            lines += show_reply(ticket, self._backend.names)
        return lines + [INNER + line for line in self._backend.inner()]

    def _request(self, command: Command) -> Ticket:
        """Sends the request. `every=9000 times=33`: so often, each time that many ms later; the
        last one counts."""
        ticket = make_ticket(command, self._backend.names)
        parked = self._hint(command.label) == f"{command.label}: {PARKED}"
        for _ in range(command.int_of("times", 1)):
            self._backend.advance(command.int_of("every", 0))
            self._backend.send(ticket, parked=parked)
        return ticket

    def _hint(self, label: str) -> str:
        """Takes the next expected line if it is `label`'s."""
        if self._hints and self._hints[0].startswith(f"{label}:"):
            return self._hints.pop(0)
        return ""

    def _released(self) -> list[Ticket]:
        """Parked requests that have their answer now."""
        while self._hints:
            label = self._hints[0].partition(":")[0]
            waiting = [one for one in self._parked if one.label == label and one.reply is None]
            if not waiting:
                break
            self._hints.pop(0)
            self._backend.wait(waiting[0])
        for ticket in self._parked:
            if ticket.reply is None:
                self._backend.poll(ticket)
        ready = [ticket for ticket in self._parked if ticket.reply is not None]
        self._parked = [ticket for ticket in self._parked if ticket.reply is None]
        return ready

    def _act(self, command: Command) -> list[str]:
        backend, words = self._backend, command.words
        match command.verb:
            case "ADVANCE":
                backend.advance(int(words[0]))
            case "CREATE-TOPIC":
                backend.create_topic(words[0], int(words[1]))
            case "GROW-TOPIC":
                backend.grow_topic(words[0], int(words[1]))
            case "DELETE-TOPIC":
                backend.delete_topic(words[0])
            case "DISCONNECT":
                self._parked = [one for one in self._parked if one.actor != command.actor]
                backend.disconnect(command.actor)
            case verb if verb in CORE_ONLY:
                given = [f"{name}={value}" for name, value in command.options.items()]
                return backend.control(verb, words + given)
            case verb:
                raise ValueError(f"unknown command {verb}")
        return []


def visible(lines: Sequence[str], kind: str) -> list[str]:
    """What this kind of backend can show of expected lines; comments are gone."""
    kept = [line for line in lines if not line.startswith("#")]
    return kept if kind == "core" else [line for line in kept if not line.startswith(INNER)]


def expected_lines(block: Block, kind: str) -> list[str]:
    """The block's expectation for this kind of backend."""
    chosen = block.variants.get(kind, block.expected)
    return visible(chosen.lines, kind)
