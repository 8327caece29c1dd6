"""One daemon as several processes: shards spread over workers, all else in the main process.

`docs/adr/0018-workers.md` says why it is divided so; `messages` lists what they ask each other.
"""
