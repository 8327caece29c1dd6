"""Rebalances as traces: events become spans, which are sent as OTLP (docs/operating.md,
"Traces")."""
