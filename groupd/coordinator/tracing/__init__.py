"""Rebalances as traces: events become spans, spans go out as OTLP (docs/operating.md, "Traces")."""
