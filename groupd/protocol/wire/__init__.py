"""Maps bytes to messages and back. Only this package knows the layouts of API versions."""
