"""The admin port: an HTTP server with health, metrics and pages as JSON."""
