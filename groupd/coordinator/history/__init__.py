"""The history of a group.

Read from its log: what was committed and when, and who moved an offset. Folded from its events: its
rebalances. No I/O: batches or events go in, states, changes and rebalances come out. Records are
replayed by the rules of `coordinator.core`.
"""
