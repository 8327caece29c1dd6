"""Checks that need neither shard nor group: protocol gates, authorisation, request shape."""
