"""The store: logs of bytes and the catalogue, in SQLite, in PostgreSQL or in memory."""
