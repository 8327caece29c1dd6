"""KIP-848 consumer groups: hard state, the heartbeat algorithm, replay, timers.

Rules: handlers read groups and members and never write them. They return records, and only `replay`
applies those. A `ConsumerGroupMember` is replaced as a whole, never changed in place, so a handler
may keep a reference to one. Soft state (deadlines, refresh deadline, resolutions under way) is
written last, after all validation.
"""
