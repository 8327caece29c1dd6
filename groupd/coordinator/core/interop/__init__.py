"""Online migration between classic and consumer groups (KIP-848; docs/spec/consumer-group.md#8).

A classic group becomes a consumer group when a member joins it with ConsumerGroupHeartbeat
(`upgrade`). Its other members go on with JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the
modules `classic_*` answer these for the consumer group. When the last member on the consumer
protocol leaves, the group becomes classic again (`downgrade`).
"""
