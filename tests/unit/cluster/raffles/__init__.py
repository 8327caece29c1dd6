"""An invented kind of coordinator: it sells tickets of raffles, and its log says how many.

It shows what such a kind consists of: a row, a machine, a shard, and who makes it.
"""
