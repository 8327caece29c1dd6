"""What `groupd log` does: looking into, checking and moving coordinator logs."""
