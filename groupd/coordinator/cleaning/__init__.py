"""How the logs of topics stay short: retention and compaction, in the background."""
