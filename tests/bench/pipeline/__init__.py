"""How fast the log is read and decoded: by Spark in its several ways, and by plain Python."""
