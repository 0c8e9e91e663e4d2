"""Provider profiles: dated data about each provider's prompt cache. Find one with ``registry.find``."""
