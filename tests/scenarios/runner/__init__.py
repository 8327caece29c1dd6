"""Conformance scenarios: text files that run against several backends (ADR 0010)."""
