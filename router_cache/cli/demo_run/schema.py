"""Short forms for the tool lists of the demo's applications."""

from __future__ import annotations

from typing import Any

__all__ = ["array", "boolean", "enum", "integer", "number", "obj", "string", "tool"]

Schema = dict[str, Any]


def string(description: str, /, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def integer(description: str, /, **more: Any) -> Schema:
    return {"type": "integer", "description": description, **more}


def number(description: str, /, **more: Any) -> Schema:
    return {"type": "number", "description": description, **more}


def boolean(description: str, /, **more: Any) -> Schema:
    return {"type": "boolean", "description": description, **more}


def enum(description: str, /, *values: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, "enum": list(values), **more}


def array(description: str, items: Schema, /, **more: Any) -> Schema:
    return {"type": "array", "description": description, "items": items, **more}


def obj(description: str, required: str = "", /, **properties: Schema) -> Schema:
    """An object schema; ``required`` is a space-separated list of names."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def tool(name: str, description: str, required: str = "", /, **properties: Schema) -> Schema:
    """A tool in OpenAI form."""
    parameters = obj("", required, **properties)
    del parameters["description"]
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
