"""Settings: how they are declared, what values they may have, and where they are set."""
