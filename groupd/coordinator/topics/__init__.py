"""The data plane: topics and their configs, partitions, Produce, Fetch."""
