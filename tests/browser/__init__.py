"""The pages of the console in a real browser, on a started daemon with real clients."""
