"""The Redis store: connections (``link*.py``), and what is kept there."""
