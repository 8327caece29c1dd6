"""What a log knows of the producers that write to it, and of their transactions."""
