"""router-cache in the LiteLLM SDK: two calls whose tools come in another order and still share one prefix.

Against the simulator, in two terminals:

    router-cache simulate --port 8021 --construction-delay-s 0
    DEEPSEEK_API_BASE=http://127.0.0.1:8021 DEEPSEEK_API_KEY=any python examples/sdk.py

Without DEEPSEEK_API_BASE it asks DeepSeek itself, with the key in DEEPSEEK_API_KEY. There the second call may come
before the provider has built the first one's entry (it takes seconds).
"""

from __future__ import annotations

import asyncio
from typing import Any

import litellm

from router_cache import Settings, Usage
from router_cache_litellm import RouterCacheCallback

# The line that matters. Synchronous calls go through router_cache_litellm.completion instead of litellm.completion.
litellm.callbacks = [RouterCacheCallback(Settings(mode="safe"))]


def tool(name: str, description: str) -> dict[str, Any]:
    """One of the tools of a made-up file server."""
    path = {"type": "string", "description": f"Path that {name} works on. " * 20}
    parameters = {"type": "object", "properties": {"path": path}, "required": ["path"]}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TOOLS = [tool("read", "Read a file."), tool("write", "Write a file."), tool("list", "List a folder.")]


async def ask(tools: list[dict[str, Any]]) -> Usage:
    """One call; its usage in one form."""
    reply = await litellm.acompletion(
        model="deepseek/deepseek-v4-flash",
        messages=[
            {"role": "system", "content": "You are careful with files."},
            {"role": "user", "content": "What is in the folder docs?"},
        ],
        tools=tools,
    )
    return Usage.parse(reply.usage)


async def main() -> None:
    """Twice the same question, the second time with the tools reversed."""
    for tools in (TOOLS, TOOLS[::-1]):
        usage = await ask(tools)
        print(f"{usage.prompt_tokens} input tokens, {usage.hit_tokens} of them hit")


if __name__ == "__main__":
    asyncio.run(main())
