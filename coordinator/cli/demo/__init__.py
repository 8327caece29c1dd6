"""`groupd demo`: three real consumers, a killed one, and what the coordinator does about it."""
