"""Flags of the commands that speak to a cluster over Kafka's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupd.coordinator.cli.command_errors import fail
from groupd.coordinator.cli.completion import words
from groupd.coordinator.cli.parse import one_of

if TYPE_CHECKING:
    from groupd.coordinator.cli.kafka.cluster import KafkaCluster

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


@contextmanager
def asked_cluster(bootstrap: str, command_config: Path | None) -> Iterator[KafkaCluster]:
    """Yields the cluster of `--bootstrap`. If a broker does not answer or refuses, the command
    prints one line and ends with exit code 1. Raises UsageError."""
    # Imported here, because `--help` needs no connections.
    from groupd.coordinator.cli.kafka.cluster import open_cluster
    from groupd.coordinator.cli.kafka.connection import KafkaError

    try:
        with open_cluster(bootstrap, command_config) as cluster:
            yield cluster
    except KafkaError as error:
        fail(str(error))


def is_json(output: str) -> bool:
    """Whether --format is json. Raises UsageError."""
    one_of(output, "--format", ("table", "json"))
    return output == "json"
