"""What a fresh broker costs a test: groupd, kfake and librdkafka's mock cluster side by side."""
