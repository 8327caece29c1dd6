"""History of a group, read back from the log: what was committed when, and who moved it.

Pure: batches in, states and changes out. The rules of replay are those of `coordinator.core`.
"""
