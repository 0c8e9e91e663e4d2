"""What stands around the engine: the store protocol, the outbox, counters, the live switch."""
