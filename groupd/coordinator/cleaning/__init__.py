"""Keeps the logs of topics short, in the background: retention and compaction."""
