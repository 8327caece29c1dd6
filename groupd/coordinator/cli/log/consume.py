"""`groupd log consume`: copies the logs of a running cluster's groups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupd.coordinator.cli.kafka.flags import BOOTSTRAP, BROKERS, CommandConfig
from groupd.coordinator.cli.parse import UsageError


def consume(
    bootstrap: Annotated[str, typer.Option(*BOOTSTRAP, help=BROKERS)],
    target: Annotated[
        Path, typer.Option("--to", help="Directory for the partitions' directories.")
    ],
    command_config: CommandConfig = None,
) -> None:
    """Copy __consumer_offsets, and __share_group_state if there is one, of a running Kafka cluster
    (or groupd) into segment files.

    Everything that its brokers still serve, byte by byte; `dump`, `verify` and `import` read it.
    Where the cluster wants TLS or a login, --command-config says how.
    """
    from groupd.coordinator.cli.kafka.cluster import open_cluster
    from groupd.coordinator.cli.kafka.connection import KafkaError
    from groupd.coordinator.cli.log.copying import copy_log
    from groupd.coordinator.logtools.entries import LogToolError

    try:
        with open_cluster(bootstrap, command_config) as cluster:
            partitions, batches, records = copy_log(cluster, target)
    except (KafkaError, LogToolError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--to {target}: {error.strerror}") from None
    print(f"copied {records} records in {batches} batches of {partitions} partitions to {target}")
