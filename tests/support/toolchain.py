"""Finds what the tests need beside Python; what is missing fails with the one command to run."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORACLE_LIB = ROOT / "tests" / "oracle" / "target" / "lib"
DRIVER = ROOT / "tests" / "clients" / "java" / "target"
DRIVER_ARCHIVE = DRIVER / "driver.jsa"
JVM_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
DRIVER_MAIN = "groupd.clients.Main"
SPRING_MAIN = "groupd.spring.Listener"
JVM_LOG = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
SPRING = ROOT / "tests" / "clients" / "spring" / "target"
SPARK_KAFKA_LIB = ROOT / "tests" / "pipeline" / "kafka" / "target" / "lib"
GO_DRIVER = ROOT / "tests" / "clients" / "go" / "target" / "driver"
OTLP_COLLECTOR = ROOT / "tests" / "tracing" / "collector" / "target" / "collector"
NODE_DRIVER = ROOT / "tests" / "clients" / "node"
CONSOLE = ROOT / "coordinator" / "console" / "web"
HELM = ROOT / "tests" / "packaging" / "target" / "helm"


def java() -> str:
    """Path of a Java runtime, 17 or newer."""
    found = shutil.which("java")
    assert found is not None, (
        "no java on PATH: run `make test-setup` (Debian: default-jdk-headless)"
    )
    return found


def oracle_classpath() -> str:
    """Class path of the real broker."""
    assert any(ORACLE_LIB.glob("kafka_*.jar")), "the broker's jars are missing: run `make oracle`"
    return f"{ORACLE_LIB}/*"


def java_driver() -> list[str]:
    """The command that runs the Java client driver, with what Java knows of its classes already.
    Java's own warnings go to stderr: stdout has the driver's lines."""
    archive = f"-XX:SharedArchiveFile={DRIVER_ARCHIVE}"
    log = ("-Xlog:disable", "-Xlog:all=warning:stderr")
    return [java(), *JVM_FLAGS, archive, *log, JVM_LOG, "-cp", _driver_classpath(), DRIVER_MAIN]


def _driver_classpath() -> str:
    """As `tests/clients/java/archive.sh` has it."""
    assert DRIVER_ARCHIVE.is_file(), "the Java driver is not built: run `make test-setup`"
    return ":".join(map(str, [DRIVER / "driver.jar", *sorted((DRIVER / "lib").glob("*.jar"))]))


def tools_classpath() -> str:
    """Class path of Kafka's command-line tools and the driver's class that calls them."""
    assert any(ORACLE_LIB.glob("kafka-tools-*.jar")), (
        "the tools' jars are missing: run `make oracle`"
    )
    assert (DRIVER / "classes").is_dir(), "the Java driver is not built: run `make test-setup`"
    return f"{DRIVER}/classes:{ORACLE_LIB}/*"


def go_driver() -> str:
    """Path of the built Go client driver."""
    assert GO_DRIVER.is_file(), "the Go driver is not built: run `make test-setup`"
    return str(GO_DRIVER)


def spring_listener() -> list[str]:
    """The command that runs a listener container of Spring Kafka."""
    built = (SPRING / "classes").is_dir() and any((SPRING / "lib").glob("spring-kafka-*.jar"))
    assert built, "the Spring listener is not built: run `make test-setup`"
    return [java(), *JVM_FLAGS, JVM_LOG, "-cp", f"{SPRING}/classes:{SPRING}/lib/*", SPRING_MAIN]


def otlp_collector() -> str:
    """Path of the built receiver of traces."""
    assert OTLP_COLLECTOR.is_file(), "the collector is not built: run `make test-setup`"
    return str(OTLP_COLLECTOR)


def node_driver() -> list[str]:
    """The command that runs the Node client driver."""
    return node_script("driver.js")


def node_script(name: str) -> list[str]:
    """The command that runs one of the Node programs, with its packages."""
    found = shutil.which("node")
    assert found is not None, "no node on PATH: run `make test-setup` (Debian: nodejs, npm)"
    installed = (NODE_DRIVER / "node_modules" / "kafkajs").is_dir()
    assert installed, "the Node driver's packages are missing: run `make test-setup`"
    return [found, str(NODE_DRIVER / name)]


def console_script(name: str) -> list[str]:
    """The command that runs a script of the console's package.json."""
    found = shutil.which("npm")
    assert found is not None, "no npm on PATH: run `make test-setup` (Debian: nodejs, npm)"
    installed = (CONSOLE / "node_modules" / "esbuild").is_dir()
    assert installed, "the console's packages are missing: run `make test-setup`"
    return [found, "--prefix", str(CONSOLE), "run", "--silent", name]


def spark_kafka_jars() -> list[Path]:
    """Spark's Kafka source and what it needs."""
    jars = sorted(SPARK_KAFKA_LIB.glob("*.jar"))
    assert jars, "Spark's Kafka source is missing: run `make test-setup`"
    return jars


def browser_programs() -> tuple[str, str]:
    """Paths of chromedriver and of Chromium."""
    found = shutil.which("chromedriver"), shutil.which("chromium")
    assert found[0] is not None, "no chromedriver on PATH: run `make test-setup`"
    assert found[1] is not None, "no chromium on PATH: run `make test-setup`"
    return found[0], found[1]


def prometheus_programs() -> tuple[str, str]:
    """Paths of Prometheus and of promtool, which checks and tests rules."""
    found = shutil.which("prometheus"), shutil.which("promtool")
    assert found[0] is not None, "no prometheus on PATH: run `make test-setup`"
    assert found[1] is not None, "no promtool on PATH: run `make test-setup`"
    return found[0], found[1]


def helm() -> str:
    """Path of helm, which checks the chart."""
    assert HELM.is_file(), "helm is not built: run `make test-setup`"
    return str(HELM)
