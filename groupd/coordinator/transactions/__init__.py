"""The transaction coordinator: who may write with which epoch, and how transactions end."""
