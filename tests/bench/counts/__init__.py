"""Python calls and allocations of a request: numbers that say that a layer has come or gone.

They are the same on every machine and under any load, so a test compares them with kept.json.
"""
