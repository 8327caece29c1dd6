"""The leaders of share-partitions: sessions, locks and deliveries to members of share groups."""
