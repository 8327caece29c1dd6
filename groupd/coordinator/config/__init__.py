"""Settings: how each is declared, what values it may have, where it is set."""
