"""The log as tables, on Spark."""
