"""Exactly once while everything is killed: workers of three clients, and the daemon."""
