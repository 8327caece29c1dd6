"""deploy/helm/groupd: helm accepts the chart, and what it makes of it starts nodes that can be
reached, probed, stopped and replaced. No Kubernetes is asked."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from msgspec import Struct

from groupd.coordinator.admin.access import Tokens
from groupd.coordinator.admin.routes import AdminRoutes
from groupd.coordinator.admin.scrapes import Scrapes
from groupd.coordinator.cli.serve import SHUTDOWN_LIMIT_S
from groupd.coordinator.cli.serve_flags import ServeFlags
from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, CoordinatorConfig, secret
from tests.support.daemon import ROOT
from tests.support.deployment import serve_flags
from tests.support.toolchain import helm

CHART = ROOT / "deploy" / "helm" / "groupd"
URL = "postgresql+asyncpg://groupd@db.example:5432/groupd"
PASSWORD = "a-password-of-the-tests"
STORE = {"store": {"existingSecret": "the-store"}}
PODS = [{"host": f"kafka-{n}.example", "port": 31090 + n} for n in (1, 2, 3)]
KUBERNETES = "1.31.0"
"""Helm as it is built here would take a very old version."""


def run(command: str, values: Mapping[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "values.yaml"
    path.write_text(json.dumps(values))
    name = [] if command == "lint" else ["kafka"]
    options = ["--strict"] if command == "lint" else ["--namespace", "streams"]
    return subprocess.run(
        [helm(), command, *name, CHART, *options, "--values", path, "--kube-version", KUBERNETES],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class Rendered(Struct):
    """What the chart makes of values, by kind and name."""

    objects: dict[tuple[str, str], dict[str, Any]]

    def one(self, kind: str, name: str = "kafka-groupd") -> dict[str, Any]:
        return self.objects[kind, name]

    @property
    def spec(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.one("StatefulSet")["spec"])

    @property
    def pod(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.spec["template"]["spec"])

    @property
    def container(self) -> dict[str, Any]:
        (container,) = self.pod["containers"]
        return cast("dict[str, Any]", container)

    def variables(self, number: int) -> dict[str, str]:
        """The environment of a pod, as far as the chart says what is in it."""
        fields = {
            "metadata.name": f"kafka-groupd-{number}",
            "metadata.labels['apps.kubernetes.io/pod-index']": str(number),
            "metadata.labels['topology.kubernetes.io/zone']": "zone-a",
        }
        found = {"GROUPD_STORE": URL, "PLAIN_USERS": "x"}
        for one in self.container["env"]:
            if "value" in one:
                found[one["name"]] = one["value"]
            elif "fieldRef" in one["valueFrom"]:
                found[one["name"]] = fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        return found

    def node(self, number: int, folder: Path) -> tuple[ServeFlags, CoordinatorConfig]:
        """The flags and the settings of a pod."""
        variables, files = self.variables(number), {}
        for name, text in self.one("ConfigMap")["data"].items():
            path = folder / name
            path.write_text(text)
            files[f"/etc/groupd/config/{name}"] = path
        arguments = [
            re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)
            for word in self.container["args"]
        ]
        return serve_flags(arguments, variables, files)


def render(values: Mapping[str, Any], folder: Path) -> Rendered:
    done = run("template", values, folder)
    assert done.returncode == 0, done.stderr
    documents = [one for one in yaml.safe_load_all(done.stdout) if one]
    names = {(one["kind"], one["metadata"]["name"]): one for one in documents}
    assert len(names) == len(documents)
    return Rendered(names)


def reason(values: Mapping[str, Any], folder: Path) -> str:
    """Why the chart refuses values."""
    done = run("template", values, folder)
    assert done.returncode != 0
    return done.stderr


EXTERNAL = {
    "NodePort": {"enabled": True, "pods": PODS},
    "LoadBalancer": {
        "enabled": True,
        "type": "LoadBalancer",
        "protocol": "SASL_SSL",
        "pods": [{**pod, "port": 9094, "annotations": {"dns": str(pod["host"])}} for pod in PODS],
    },
}
VARIATIONS: dict[str, dict[str, Any]] = {
    "the least": STORE,
    "url and password": {"store": {"url": URL, "password": PASSWORD}},
    "tls": {
        **STORE,
        "listener": {"protocol": "SSL", "port": 9093},
        "tls": {"existingSecret": "certificate", "clientCaKey": "ca.crt"},
    },
    "node ports": {**STORE, "external": EXTERNAL["NodePort"]},
    "load balancers": {
        **STORE,
        "external": EXTERNAL["LoadBalancer"],
        "tls": {"existingSecret": "certificate"},
        "config": {"sasl.enabled.mechanisms": "SCRAM-SHA-512"},
    },
    "everything else": {
        **STORE,
        "replicas": 5,
        "rackLabel": "topology.kubernetes.io/zone",
        "admin": {"existingSecret": "tokens"},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True, "annotations": {"folder": "groupd"}},
        "serviceAccount": {"annotations": {"a": "b"}},
        "imagePullSecrets": ["registry"],
        "env": [{"name": "TZ", "value": "UTC"}],
        "envFrom": [{"secretRef": {"name": "more"}}],
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "streams"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "extraVolumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
        "config": {"groupd.history.retention.ms": 604800000, "auto.create.topics.enable": False},
    },
}
each_variation = pytest.mark.parametrize("values", VARIATIONS.values(), ids=VARIATIONS)


@each_variation
def test_helm_accepts_the_chart(values: dict[str, Any], tmp_path: Path) -> None:
    done = run("lint", values, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[ERROR]" not in done.stdout
    assert "[WARNING]" not in done.stdout


@each_variation
def test_a_node_starts_with_flags_and_settings_that_exist(
    values: dict[str, Any], tmp_path: Path
) -> None:
    made = render(values, tmp_path)
    assert "--cluster" in made.container["args"]
    assert made.spec["ordinals"]["start"] == 1
    for number in (1, 2, 3):
        flags, config = made.node(number, tmp_path)
        assert config.node_id == number
        assert flags.store == URL
        assert flags.admin == "0.0.0.0:9644"
        assert config.admin_token_file == "/etc/groupd/admin/tokens"


@each_variation
def test_pods_are_checked_replaced_and_stopped_in_order(
    values: dict[str, Any], tmp_path: Path
) -> None:
    made = render(values, tmp_path)
    routes = AdminRoutes(
        CoordinatorConfig(), {}, cast(Scrapes, SimpleNamespace(page=None)), lambda: None
    )._routes
    ports = {port["name"]: port["containerPort"] for port in made.container["ports"]}
    for probe, path in (("startup", "healthz"), ("liveness", "healthz"), ("readiness", "readyz")):
        asked = made.container[f"{probe}Probe"]["httpGet"]
        assert asked == {"path": f"/{path}", "port": "admin"}
        assert path in routes
    assert ports["admin"] == 9644
    assert made.spec["replicas"] == values.get("replicas", 3)
    assert made.spec["podManagementPolicy"] == "Parallel"
    assert made.spec["updateStrategy"] == {"type": "RollingUpdate"}
    budget = made.one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    labels = made.spec["template"]["metadata"]["labels"]
    for selector in (budget["selector"]["matchLabels"], made.spec["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()


def test_the_pause_before_the_end_is_a_command_that_ends_in_time(tmp_path: Path) -> None:
    made = render({**STORE, "preStopSeconds": 0}, tmp_path)
    program, *arguments = made.container["lifecycle"]["preStop"]["exec"]["command"]
    # The image is Python's.
    assert program == "python"
    assert "FROM python:" in (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[0]
    subprocess.run([sys.executable, *arguments], check=True, timeout=60)
    pause = render(STORE, tmp_path).container["lifecycle"]["preStop"]["exec"]["command"][-1]
    (seconds,) = re.findall(r"sleep\((\d+)\)", pause)
    grace = render(STORE, tmp_path).pod["terminationGracePeriodSeconds"]
    assert grace > int(seconds) + SHUTDOWN_LIMIT_S + 5
    short = {**STORE, "preStopSeconds": 10, "terminationGracePeriodSeconds": 15}
    assert "must be larger than preStopSeconds + 5" in reason(short, tmp_path)


@each_variation
def test_nobody_gets_more_rights_than_needed(values: dict[str, Any], tmp_path: Path) -> None:
    made = render(values, tmp_path)
    (user,) = re.findall(r"useradd .*--uid (\d+)", (ROOT / "Dockerfile").read_text())
    assert made.pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": int(user),
        "runAsGroup": int(user),
        "fsGroup": int(user),
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert made.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert made.pod["automountServiceAccountToken"] is False
    assert made.pod["serviceAccountName"] == "kafka-groupd"
    assert made.one("ServiceAccount")["automountServiceAccountToken"] is False
    mounts = {one["mountPath"]: one for one in made.container["volumeMounts"]}
    assert [path for path in mounts if not mounts[path].get("readOnly")][:1] == ["/data"]
    volumes = {one["name"]: one for one in made.pod["volumes"]}
    assert {one["name"] for one in mounts.values()} == volumes.keys()
    assert volumes["admin"]["secret"]["defaultMode"] == 0o440, "more, and groupd refuses the file"


def test_a_password_is_in_a_secret_and_nowhere_else(tmp_path: Path) -> None:
    made = render(VARIATIONS["url and password"], tmp_path)
    holders = [key for key, one in made.objects.items() if PASSWORD in json.dumps(one)]
    assert holders == [("Secret", "kafka-groupd-store")]
    data = made.one("Secret", "kafka-groupd-store")["stringData"]
    assert data == {"url": URL, "password": PASSWORD}
    assert store_secret(made) == {
        "GROUPD_STORE": "kafka-groupd-store",
        "PGPASSWORD": "kafka-groupd-store",
    }


def store_secret(made: Rendered) -> dict[str, str]:
    """The Secret that each variable of the store comes from."""
    references = {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in made.container["env"]
        if "secretKeyRef" in one.get("valueFrom", {})
    }
    keys = {name: reference["key"] for name, reference in references.items()}
    assert keys == {"GROUPD_STORE": "url", "PGPASSWORD": "password"}
    assert references["PGPASSWORD"]["optional"] is True
    return {name: reference["name"] for name, reference in references.items()}


def test_a_secret_for_the_store_may_be_there_already(tmp_path: Path) -> None:
    made = render(STORE, tmp_path)
    assert store_secret(made) == {"GROUPD_STORE": "the-store", "PGPASSWORD": "the-store"}
    assert [name for kind, name in made.objects if kind == "Secret"] == ["kafka-groupd-admin"]
    assert "store.existingSecret or store.url" in reason({}, tmp_path)


def test_the_admin_port_has_a_token(tmp_path: Path) -> None:
    made = render(STORE, tmp_path)
    path = tmp_path / "tokens"
    path.write_bytes(base64.b64decode(made.one("Secret", "kafka-groupd-admin")["data"]["tokens"]))
    path.chmod(0o600)
    Tokens(path)
    made = render(VARIATIONS["everything else"], tmp_path)
    assert [name for kind, name in made.objects if kind == "Secret"] == []
    (volume,) = (one for one in made.pod["volumes"] if one["name"] == "admin")
    assert volume["secret"]["secretName"] == "tokens"


def test_settings_that_are_secret_are_refused_in_the_config_map(tmp_path: Path) -> None:
    keys = [key for key in FIELDS_BY_KEY if secret(key)]
    assert len(keys) >= 3
    for key in [*keys, "listener.name.internal.plain.sasl.jaas.config"]:
        assert f"config.{key} is a secret" in reason({**STORE, "config": {key: "x"}}, tmp_path)
    jaas = {"listener.name.internal.plain.sasl.jaas.config": "${env:PLAIN_USERS}"}
    assert "env:PLAIN_USERS" in json.dumps(
        render({**STORE, "config": jaas}, tmp_path).objects["ConfigMap", "kafka-groupd"]
    )


def test_settings_are_written_as_groupd_reads_them(tmp_path: Path) -> None:
    rules = r"RULE:^CN=(\w+).*$/$1/,DEFAULT"
    given = {
        "groupd.history.retention.ms": 604800000123,
        "auto.create.topics.enable": False,
        "ssl.principal.mapping.rules": rules,
    }
    _, config = render({**STORE, "config": given}, tmp_path).node(1, tmp_path)
    assert config.history_retention_ms == 604800000123
    assert config.auto_create_topics_enable is False
    assert rules in str(config.ssl_principal_mapping_rules)
    for refused in ({"node.id": 3}, {"listeners": "x"}, {"num.partitions": "1\nnode.id=3"}):
        assert next(iter(refused)) in reason({**STORE, "config": refused}, tmp_path)


def test_other_settings_restart_the_pods(tmp_path: Path) -> None:
    one, other = (
        render({**STORE, "config": {"num.partitions": n}}, tmp_path).spec["template"]["metadata"]
        for n in (1, 2)
    )
    assert one["annotations"] != other["annotations"]
    again = render({**STORE, "replicas": 4, "config": {"num.partitions": 1}}, tmp_path)
    assert again.spec["template"]["metadata"] == one, "more pods restart none"


def told(config: CoordinatorConfig) -> list[str]:
    listeners: Any = config.advertised_listeners
    return listeners.split(",") if isinstance(listeners, str) else list(listeners)


@each_variation
def test_clients_inside_are_told_the_stable_name_of_a_pod(
    values: dict[str, Any], tmp_path: Path
) -> None:
    made = render(values, tmp_path)
    port = values.get("listener", {}).get("port", 9092)
    headless = made.one("Service", made.spec["serviceName"])["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    bootstrap = made.one("Service")["spec"]
    assert "publishNotReadyAddresses" not in bootstrap
    ports = {one["name"]: one["containerPort"] for one in made.container["ports"]}
    for service in (headless, bootstrap):
        assert service["ports"][0] == {"name": "kafka", "port": port, "targetPort": "kafka"}
        assert service["selector"] == made.spec["selector"]["matchLabels"]
    assert ports["kafka"] == port
    _, config = made.node(2, tmp_path)
    name = "kafka-groupd-2.kafka-groupd-headless.streams.svc.cluster.local"
    assert told(config)[0] == f"INTERNAL://{name}:{port}"


@pytest.mark.parametrize("kind", EXTERNAL)
def test_clients_outside_reach_each_pod_by_what_they_are_told(kind: str, tmp_path: Path) -> None:
    values = VARIATIONS["node ports" if kind == "NodePort" else "load balancers"]
    made = render(values, tmp_path)
    for number, pod in enumerate(values["external"]["pods"], start=1):
        _, config = made.node(number, tmp_path)
        assert told(config)[1:] == [f"EXTERNAL://{pod['host']}:{pod['port']}"]
        service = made.one("Service", f"kafka-groupd-{number}")
        spec = service["spec"]
        assert spec["type"] == kind
        assert spec["selector"]["statefulset.kubernetes.io/pod-name"] == f"kafka-groupd-{number}"
        (port,) = spec["ports"]
        assert port["port"] == pod["port"]
        assert port.get("nodePort") == (pod["port"] if kind == "NodePort" else None)
        assert {"name": port["targetPort"], "containerPort": 9094} in made.container["ports"]
        assert service["metadata"].get("annotations") == pod.get("annotations")
    few = {**values, "external": {**values["external"], "pods": PODS[:2]}}
    assert "external.pods has 2 entries for 3 replicas" in reason(few, tmp_path)


def test_node_ports_are_in_their_range(tmp_path: Path) -> None:
    pods = [{"host": "a", "port": 9092}] * 3
    assert "port" in reason({**STORE, "external": {"enabled": True, "pods": pods}}, tmp_path)


def test_tls_has_its_certificate_from_a_secret(tmp_path: Path) -> None:
    made = render(VARIATIONS["tls"], tmp_path)
    _, config = made.node(1, tmp_path)
    assert config.ssl_keystore_location == "/etc/groupd/tls/tls-combined.pem"
    assert config.ssl_truststore_location == "/etc/groupd/tls/ca.crt"
    assert config.ssl_client_auth == "required"
    assert {"name": "tls", "mountPath": "/etc/groupd/tls", "readOnly": True} in made.container[
        "volumeMounts"
    ]
    (volume,) = (one for one in made.pod["volumes"] if one["name"] == "tls")
    assert volume["secret"] == {"secretName": "certificate", "defaultMode": 0o440}
    without = {**STORE, "listener": {"protocol": "SASL_SSL"}}
    assert "needs tls.existingSecret" in reason(without, tmp_path)


def test_prometheus_finds_the_nodes_one_by_one(tmp_path: Path) -> None:
    made = render(VARIATIONS["everything else"], tmp_path)
    monitor = made.one("ServiceMonitor")
    labels = monitor["spec"]["selector"]["matchLabels"].items()
    found = [
        one["metadata"]["name"]
        for (kind, _), one in made.objects.items()
        if kind == "Service" and labels <= one["metadata"]["labels"].items()
    ]
    assert found == ["kafka-groupd-headless"]
    assert monitor["spec"]["endpoints"][0]["path"] == "/metrics"
    relabelled = {"targetLabel": "job", "replacement": "groupd"}
    assert monitor["spec"]["endpoints"][0]["relabelings"] == [relabelled]
    _, config = made.node(1, tmp_path)
    assert config.admin_metrics_open is True


def test_alerts_and_dashboards_are_those_of_the_other_ways_to_deploy(tmp_path: Path) -> None:
    made = render(VARIATIONS["everything else"], tmp_path)
    rules = made.one("PrometheusRule")
    path = ROOT / "deploy" / "prometheus" / "rules" / "groupd.yml"
    assert rules["spec"] == yaml.safe_load(path.read_text())
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    shown = made.one("ConfigMap", "kafka-groupd-dashboards")
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert shown["metadata"]["annotations"] == {"folder": "groupd"}
    folder = ROOT / "deploy" / "grafana" / "dashboards"
    assert {name: json.loads(text) for name, text in shown["data"].items()} == {
        f"groupd-{path.name}": json.loads(path.read_text()) for path in folder.iterdir()
    }
    plain = render(STORE, tmp_path)
    assert {"ServiceMonitor", "PrometheusRule"} & {kind for kind, _ in plain.objects} == set()
    assert [name for kind, name in plain.objects if kind == "ConfigMap"] == ["kafka-groupd"]


def test_the_schema_knows_exactly_the_values_that_there_are() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert values.keys() == schema["properties"].keys() - {"global"}
    for key, value in values.items():
        known = schema["properties"][key].get("properties")
        if known and isinstance(value, dict):
            assert value.keys() == known.keys(), key


@pytest.mark.parametrize("values", [{"replica": 3}, {"replicas": 0}, {"log": {"level": "all"}}])
def test_mistakes_in_values_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    assert next(iter(values)) in reason({**STORE, **values}, tmp_path)
