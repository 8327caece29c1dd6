"""Share groups (KIP-932, docs/spec/share-group.md#2): members that share partitions. Handlers
return records, `replay` applies them. The durable state of the partitions is with the share
coordinator, which is asked by calls.
"""
