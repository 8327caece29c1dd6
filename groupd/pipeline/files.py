"""Operations on files wherever Spark has them: a local disk, HDFS, an object store."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def _place(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The file system and the path as Hadoop objects."""
    assert spark._jvm is not None
    place = spark._jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), place


def exists(spark: SparkSession, path: str) -> bool:
    files, place = _place(spark, path)
    return bool(files.exists(place))


def delete(spark: SparkSession, path: str) -> None:
    """Deletes `path` and everything below it."""
    files, place = _place(spark, path)
    files.delete(place, True)


def directories(spark: SparkSession, path: str, prefix: str) -> dict[str, frozenset[str]]:
    """The directories in `path` whose names begin with `prefix`, each with the names of its
    entries."""
    files, place = _place(spark, path)
    found: dict[str, frozenset[str]] = {}
    if not files.exists(place):
        return found
    for one in files.listStatus(place):
        name = one.getPath().getName()
        if one.isDirectory() and name.startswith(prefix):
            inside = files.listStatus(one.getPath())
            found[name] = frozenset(file.getPath().getName() for file in inside)
    return found
