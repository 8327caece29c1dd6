"""Bytes to messages and back. Only this package knows version numbers' layouts."""
