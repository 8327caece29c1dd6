"""Faults on command, between the connections and the broker.

The harness injects them, and the replay of a recording injects them again.
"""
