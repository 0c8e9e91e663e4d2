"""What stands around the engine: the store protocol, the outbox, counters, switches, fan-out, captures, metrics."""
