"""Python calls for a request: exact numbers, which say that a layer has come or gone."""
