"""Bytes to messages and back. Only this package knows kio and version numbers' layouts."""
