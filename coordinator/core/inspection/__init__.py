"""What an operator sees of a group, and why it waits: plain JSON-friendly data, read only.

It shows the latest state, which may be ahead of what is durable by the writes in flight.
"""
