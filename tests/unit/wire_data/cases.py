"""Every API of the data and admin side, with its samples, and the version ranges served."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.registry import Api
from tests.unit.wire_data import acl_samples as c
from tests.unit.wire_data import admin_samples as a
from tests.unit.wire_data import config_samples as f
from tests.unit.wire_data import data_samples as d
from tests.unit.wire_data import marker_samples as w
from tests.unit.wire_data import node_samples as n
from tests.unit.wire_data import producer_samples as p
from tests.unit.wire_data import quota_samples as q
from tests.unit.wire_data import security_samples as s
from tests.unit.wire_data import share_samples as h
from tests.unit.wire_data import txn_samples as t
from tests.unit.wire_data.data_samples import Sample

Sampler = Callable[[int], Sample]


@dataclass(frozen=True)
class Case:
    name: str
    requests: tuple[Sampler, ...]
    replies: tuple[Sampler, ...]

    @property
    def api(self) -> Api:
        return next(api for api in API_BY_KEY.values() if _snake_case(api.name) == self.name)

    @property
    def versions(self) -> range:
        """What kio knows of the served versions: Produce 0-2 and TxnOffsetCommit 6 have golden
        bytes instead."""
        least = 3 if self.name == "produce" else self.api.min_version
        most = 5 if self.name == "txn_offset_commit" else self.api.max_version
        return range(least, most + 1)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


CASES = (
    Case("produce", (d.produce_full, d.produce_bare), (d.produce_reply, d.produce_reply_empty)),
    Case("fetch", (d.fetch_full, d.fetch_bare), (d.fetch_reply, d.fetch_reply_error)),
    Case("list_offsets", (d.list_offsets,), (d.list_offsets_reply,)),
    Case(
        "offset_for_leader_epoch",
        (d.offset_for_leader_epoch,),
        (d.offset_for_leader_epoch_reply,),
    ),
    Case("delete_records", (d.delete_records,), (d.delete_records_reply,)),
    Case(
        "init_producer_id",
        (p.init_producer_id, p.init_producer_id_idempotent),
        (p.init_producer_id_reply,),
    ),
    Case("add_partitions_to_txn", (t.add_partitions_to_txn,), (t.add_partitions_to_txn_reply,)),
    Case("add_offsets_to_txn", (t.add_offsets_to_txn,), (t.add_offsets_to_txn_reply,)),
    Case("end_txn", (t.end_txn, t.end_txn_abort), (t.end_txn_reply,)),
    Case("describe_transactions", (t.describe_transactions,), (t.describe_transactions_reply,)),
    Case(
        "list_transactions",
        (t.list_transactions, t.list_transactions_all),
        (t.list_transactions_reply,),
    ),
    Case("write_txn_markers", (w.write_txn_markers,), (w.write_txn_markers_reply,)),
    Case("txn_offset_commit", (w.txn_offset_commit,), (w.txn_offset_commit_reply,)),
    Case("describe_producers", (w.describe_producers,), (w.describe_producers_reply,)),
    Case("create_topics", (a.create_topics,), (a.create_topics_reply,)),
    Case("delete_topics", (a.delete_topics,), (a.delete_topics_reply,)),
    Case("create_partitions", (a.create_partitions,), (a.create_partitions_reply,)),
    Case("describe_configs", (f.describe_configs,), (f.describe_configs_reply,)),
    Case("alter_configs", (f.alter_configs,), (f.incremental_alter_configs_reply,)),
    Case(
        "incremental_alter_configs",
        (f.incremental_alter_configs,),
        (f.incremental_alter_configs_reply,),
    ),
    Case(
        "list_config_resources",
        (a.list_config_resources, a.list_config_resources_all),
        (a.list_config_resources_reply,),
    ),
    Case(
        "metadata",
        (a.metadata, a.metadata_all, a.metadata_none),
        (a.metadata_reply, a.metadata_reply_empty),
    ),
    Case(
        "describe_log_dirs",
        (n.describe_log_dirs, n.describe_log_dirs_all),
        (n.describe_log_dirs_reply,),
    ),
    Case(
        "alter_replica_log_dirs",
        (n.alter_replica_log_dirs,),
        (n.alter_replica_log_dirs_reply,),
    ),
    Case("elect_leaders", (n.elect_leaders, n.elect_leaders_all), (n.elect_leaders_reply,)),
    Case(
        "alter_partition_reassignments",
        (n.alter_partition_reassignments,),
        (n.alter_partition_reassignments_reply,),
    ),
    Case(
        "list_partition_reassignments",
        (n.list_partition_reassignments, n.list_partition_reassignments_all),
        (n.list_partition_reassignments_reply,),
    ),
    Case("describe_quorum", (n.describe_quorum,), (n.describe_quorum_reply,)),
    Case(
        "get_telemetry_subscriptions",
        (n.get_telemetry_subscriptions, n.get_telemetry_subscriptions_first),
        (n.get_telemetry_subscriptions_reply,),
    ),
    Case("push_telemetry", (n.push_telemetry,), (n.push_telemetry_reply,)),
    Case("update_features", (n.update_features,), (n.update_features_reply,)),
    Case("describe_cluster", (a.describe_cluster,), (a.describe_cluster_reply,)),
    Case(
        "describe_topic_partitions",
        (a.describe_topic_partitions, a.describe_topic_partitions_start),
        (a.describe_topic_partitions_reply, a.describe_topic_partitions_reply_last),
    ),
    Case(
        "describe_client_quotas",
        (q.describe_client_quotas,),
        (q.describe_client_quotas_reply, q.describe_client_quotas_refused),
    ),
    Case("alter_client_quotas", (q.alter_client_quotas,), (q.alter_client_quotas_reply,)),
    Case(
        "describe_acls",
        (c.describe_acls, c.describe_acls_all),
        (c.describe_acls_reply, c.describe_acls_reply_error),
    ),
    Case("create_acls", (c.create_acls,), (c.create_acls_reply,)),
    Case("delete_acls", (c.delete_acls,), (c.delete_acls_reply,)),
    Case("sasl_handshake", (s.sasl_handshake,), (s.sasl_handshake_reply,)),
    Case("sasl_authenticate", (s.sasl_authenticate,), (s.sasl_authenticate_reply,)),
    Case(
        "describe_user_scram_credentials",
        (s.describe_users, s.describe_users_all),
        (s.describe_users_reply, s.describe_users_reply_error),
    ),
    Case("alter_user_scram_credentials", (s.alter_users,), (s.alter_users_reply,)),
    Case("create_delegation_token", (s.create_token,), ()),
    Case("renew_delegation_token", (s.renew_token,), ()),
    Case("expire_delegation_token", (s.expire_token,), ()),
    Case(
        "describe_delegation_token",
        (s.describe_tokens, s.describe_tokens_all),
        (s.describe_tokens_reply,),
    ),
    Case(
        "share_group_heartbeat",
        (h.heartbeat, h.heartbeat_bare),
        (h.heartbeat_reply, h.heartbeat_refused),
    ),
    Case("share_group_describe", (h.describe,), (h.describe_reply,)),
    Case("share_fetch", (h.fetch, h.fetch_bare), (h.fetch_reply,)),
    Case("share_acknowledge", (h.acknowledge,), (h.acknowledge_reply,)),
    Case("initialize_share_group_state", (h.initialize,), (h.state_reply,)),
    Case("read_share_group_state", (h.read,), (h.read_reply,)),
    Case("write_share_group_state", (h.write,), (h.state_reply,)),
    Case("delete_share_group_state", (h.delete,), (h.state_reply,)),
    Case("read_share_group_state_summary", (h.summary,), (h.summary_reply,)),
    Case("describe_share_group_offsets", (h.describe_offsets,), (h.describe_offsets_reply,)),
    Case("alter_share_group_offsets", (h.alter_offsets,), (h.alter_offsets_reply,)),
    Case("delete_share_group_offsets", (h.delete_offsets,), (h.delete_offsets_reply,)),
)

VERSIONED = [(case, version) for case in CASES for version in case.versions]
VERSIONED_IDS = [f"{case.name}-v{version}" for case, version in VERSIONED]
