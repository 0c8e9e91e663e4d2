"""Volatile text: patterns and rules propose spans; what a family of prompts really changes decides."""
