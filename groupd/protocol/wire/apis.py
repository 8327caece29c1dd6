"""The table of all served APIs.

A module under `api/` is served if its name is in `_MODULES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from groupd.protocol.messages.cluster import ApiRange
from groupd.protocol.wire.registry import Api

_MODULES = (
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition_reassignments",
    "alter_replica_log_dirs",
    "alter_user_scram_credentials",
    "api_versions",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "create_acls",
    "create_delegation_token",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_client_quotas",
    "describe_acls",
    "describe_cluster",
    "describe_configs",
    "describe_delegation_token",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_quorum",
    "describe_topic_partitions",
    "describe_transactions",
    "describe_user_scram_credentials",
    "elect_leaders",
    "end_txn",
    "expire_delegation_token",
    "fetch",
    "find_coordinator",
    "get_telemetry_subscriptions",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "list_partition_reassignments",
    "list_transactions",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "push_telemetry",
    "renew_delegation_token",
    "sasl_authenticate",
    "sasl_handshake",
    "sync_group",
    "txn_offset_commit",
    "update_features",
    "write_txn_markers",
)


def _load(module: str) -> Api:
    api: Api = import_module(f"groupd.protocol.wire.api.{module}").API
    return api


API_BY_KEY: Mapping[int, Api] = {api.key: api for api in map(_load, _MODULES)}
"""Every served API by its key."""

API_RANGES: tuple[ApiRange, ...] = tuple(
    ApiRange(key, API_BY_KEY[key].min_version, API_BY_KEY[key].max_version)
    for key in sorted(API_BY_KEY)
)
"""The version ranges that ApiVersions advertises, ascending by key."""
