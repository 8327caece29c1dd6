"""Record and replay: see docs/recording.md."""
