"""Chaos with a cluster: three nodes, PostgreSQL and a standby, clients of three languages."""
