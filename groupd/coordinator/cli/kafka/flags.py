"""Flags of the commands that speak to a cluster over Kafka's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupd.coordinator.cli.completion import words
from groupd.coordinator.cli.parse import one_of

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

BOOTSTRAP = ("--bootstrap", "--bootstrap-server")
"""The names of the flag: groupd's, and the one of Kafka's tools."""

BROKERS = (
    "Brokers of the cluster, HOST:PORT with commas between them: the first that answers is asked."
)

Bootstrap = Annotated[str, typer.Option(*BOOTSTRAP[::-1], help=BROKERS)]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        help="Properties of the client, as Kafka's tools take them: security.protocol, "
        "sasl.mechanism, sasl.jaas.config, ssl.truststore.location (PEM); see docs/security.md."
    ),
]
FORMAT = ("--format", "--output", "-o")
"""The names of the flag that chooses between a table for people and JSON for programs."""

Format = Annotated[
    str,
    typer.Option(
        *FORMAT,
        help="table, or json: one object a line.",
        autocompletion=words("table", "json"),
    ),
]
Wide = Annotated[
    bool,
    typer.Option(
        "--wide", help="Cut nothing off. Without it, lines fit the terminal, or 120 columns."
    ),
]


def is_json(output: str) -> bool:
    """Whether --format is json. Raises UsageError."""
    one_of(output, "--format", ("table", "json"))
    return output == "json"
