"""groupd, a Kafka group coordinator. Users import `groupd.testing`; the folders beside it are links
into the top of the source tree (ADR 32)."""
