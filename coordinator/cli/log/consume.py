"""`groupd log consume`: copy the offsets log of a running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.log.options import run
from coordinator.cli.parse import real_port


def consume(
    bootstrap: Annotated[str, typer.Option(help="A broker of the cluster, HOST:PORT.")],
    target: Annotated[
        Path, typer.Option("--to", help="Directory for the partitions' directories.")
    ],
) -> None:
    """Copy __consumer_offsets of a running Kafka cluster (or groupd) into segment files.

    Everything that its brokers still serve, byte by byte; `dump`, `verify` and `import` read it.
    Plain connections only; where a cluster wants TLS or SASL, copy its segment files.
    """
    from coordinator.logtools.consuming import consume_log

    host, port = real_port(bootstrap, "--bootstrap")
    partitions, batches, records = run(consume_log(host, port, target))
    print(f"copied {records} records in {batches} batches of {partitions} partitions to {target}")
