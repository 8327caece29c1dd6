"""Logs of bytes in SQLite, in PostgreSQL or in memory."""
