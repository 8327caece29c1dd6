"""Recording and replay of a broker. docs/recording.md describes them."""
