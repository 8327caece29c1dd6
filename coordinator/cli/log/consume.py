"""`groupd log consume`: copies the offsets log of a running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.parse import real_port


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
    from groupd.coordinator.cli.kafka.cluster import KafkaCluster
    from groupd.coordinator.cli.kafka.connection import KafkaError
    from groupd.coordinator.cli.log.copying import copy_log
    from groupd.coordinator.logtools.errors import LogToolError

    try:
        with KafkaCluster(*real_port(bootstrap, "--bootstrap")) as cluster:
            partitions, batches, records = copy_log(cluster, target)
    except (KafkaError, LogToolError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--to {target}: {error.strerror}") from None
    print(f"copied {records} records in {batches} batches of {partitions} partitions to {target}")
