"""Finds what the tests need beside Python; what is missing fails with the one command to run."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORACLE_LIB = ROOT / "tests" / "oracle" / "target" / "lib"
DRIVER = ROOT / "tests" / "clients" / "java" / "target"


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


def driver_classpath() -> str:
    """Class path of the Java client driver."""
    built = (DRIVER / "classes").is_dir() and any((DRIVER / "lib").glob("kafka-clients-*.jar"))
    assert built, "the Java driver is not built: run `make test-setup`"
    return f"{DRIVER}/classes:{DRIVER}/lib/*"
