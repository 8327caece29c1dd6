"""The history of a group, read back from the log: what was committed and when, and who moved an
offset.

No I/O: batches go in, states and changes come out. The records are replayed by the rules of
`coordinator.core`.
"""
