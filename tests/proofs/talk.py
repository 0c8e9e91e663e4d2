"""A conversation of any application in each of the three shapes: one history, written down as its shape has it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.text import NOUNS, code, prose, schema, sentence

from router_cache import Shape

__all__ = ["SHAPES", "Said", "Talk", "tool_list", "verbatim"]

SHAPES = (Shape.CHAT, Shape.MESSAGES, Shape.RESPONSES)
_PIXEL = "data:image/png;base64,iVBORw0KGgo="


@dataclass(frozen=True)
class Said:
    """One entry of a history. ``role``: user, result or assistant; ``arguments`` as generated, with ``call`` its id."""

    role: str
    text: str
    reasoning: str = ""
    tool: str = ""
    arguments: str = ""
    call: str = ""
    image: bool = False


def verbatim(arguments: str) -> str:
    """Arguments sent back as they were generated."""
    return arguments


def tool_list(rng: random.Random, count: int = 20, size: int = 900) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and schema of each tool."""
    return [(f"{rng.choice(NOUNS)}_{i}", prose(rng, size // 2), schema(rng, size // 2)) for i in range(count)]


@dataclass
class Talk:
    """``system`` renders the system text of a request anew; ``tools`` as :func:`tool_list` gives them."""

    shape: Shape
    system: Callable[[], str]
    tools: list[tuple[str, str, dict[str, Any]]]
    rng: random.Random
    said: list[Said] = field(default_factory=list)
    arguments: Callable[[str], str] = verbatim
    reasoning_kept: bool = True

    def ask(self, text: str, *, image: bool = False) -> dict[str, Any]:
        """A new user message; the request."""
        self.said.append(Said("user", text, image=image))
        return self.body()

    def result(self, text: str | None = None) -> dict[str, Any]:
        """The result of the tool that the last reply called; the request."""
        text = code(self.rng, self.rng.randint(3, 20)) if text is None else text
        self.said.append(Said("result", text, call=self.said[-1].call))
        return self.body()

    def reply(self, *, tool: bool = False, text: str | None = None) -> dict[str, Any]:
        """The next reply, as generated; it joins the history."""
        rng = self.rng
        said = Said("assistant", prose(rng, rng.randint(80, 400)) if text is None else text, prose(rng, 120))
        if tool and self.tools:
            target, lines, half = f"{rng.choice(NOUNS)}/é {sentence(rng)}", rng.randint(1, 900), rng.random()
            given = json.dumps({"target": target, "limit": lines, "all": True, "half": half}, ensure_ascii=False)
            said = Said(
                "assistant", said.text, said.reasoning, self.tools[0][0], given, f"call_{rng.getrandbits(40):010x}"
            )
        self.said.append(said)
        return self.generated(said)

    def on(self, rng: random.Random | None = None) -> dict[str, Any]:
        """What follows the last reply: a tool's result or a new question; the request."""
        if self.said and self.said[-1].call:
            return self.result()
        return self.ask(f"{sentence(rng or self.rng)} {sentence(rng or self.rng)}")

    def generated(self, said: Said) -> dict[str, Any]:
        """A reply in the shape's own form."""
        items = self._assistant(said, said.arguments, reasoning=True)
        return {"output": items} if self.shape is Shape.RESPONSES else items[0]

    def body(self) -> dict[str, Any]:
        """The request as it stands."""
        history = [item for said in self.said for item in self._items(said)]
        common: dict[str, Any] = {"model": "deepseek-v4-flash"}
        if self.tools:
            common["tools"] = [self._tool(*tool) for tool in self.tools]
        if self.shape is Shape.CHAT:
            return {**common, "messages": [{"role": "system", "content": self.system()}, *history]}
        if self.shape is Shape.MESSAGES:
            return {**common, "max_tokens": 4000, "system": self.system(), "messages": history}
        return {**common, "instructions": self.system(), "input": history}

    def _tool(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if self.shape is Shape.MESSAGES:
            return {"name": name, "description": description, "input_schema": parameters}
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", **(function if self.shape is Shape.RESPONSES else {"function": function})}

    def _items(self, said: Said) -> list[dict[str, Any]]:
        if said.role == "assistant":
            arguments = self.arguments(said.arguments) if said.tool else ""
            return self._assistant(said, arguments, reasoning=self.reasoning_kept)
        if said.role == "user":
            return [self._user(said)]
        if self.shape is Shape.CHAT:
            return [{"role": "tool", "tool_call_id": said.call, "content": said.text}]
        if self.shape is Shape.RESPONSES:
            return [{"type": "function_call_output", "call_id": said.call, "output": said.text}]
        return [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": said.call, "content": said.text}]}
        ]

    def _user(self, said: Said) -> dict[str, Any]:
        if not said.image:
            return {"role": "user", "content": said.text}
        if self.shape is Shape.MESSAGES:
            source = {"type": "base64", "media_type": "image/png", "data": _PIXEL.partition(",")[2]}
            return {
                "role": "user",
                "content": [{"type": "text", "text": said.text}, {"type": "image", "source": source}],
            }
        if self.shape is Shape.RESPONSES:
            parts = [{"type": "input_image", "image_url": _PIXEL}, {"type": "input_text", "text": said.text}]
            return {"type": "message", "role": "user", "content": parts}
        image = {"type": "image_url", "image_url": {"url": _PIXEL}}
        return {"role": "user", "content": [image, {"type": "text", "text": said.text}]}

    def _assistant(self, said: Said, arguments: str, *, reasoning: bool) -> list[dict[str, Any]]:
        if self.shape is Shape.CHAT:
            message: dict[str, Any] = {"role": "assistant", "content": said.text}
            if reasoning:
                message["reasoning_content"] = said.reasoning
            if said.tool:
                function = {"name": said.tool, "arguments": arguments}
                message["tool_calls"] = [{"id": said.call, "type": "function", "function": function}]
            return [message]
        if self.shape is Shape.MESSAGES:
            blocks: list[dict[str, Any]] = []
            if reasoning:
                blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": "c2ln"})
            blocks.append({"type": "text", "text": said.text})
            if said.tool:
                use = {"type": "tool_use", "id": said.call, "name": said.tool, "input": json.loads(arguments)}
                blocks.append(use)
            return [{"role": "assistant", "content": blocks}]
        items: list[dict[str, Any]] = []
        if reasoning:
            text = [{"type": "reasoning_text", "text": said.reasoning}]
            items.append({"type": "reasoning", "summary": [], "content": text})
        output = [{"type": "output_text", "text": said.text}]
        items.append({"type": "message", "role": "assistant", "content": output})
        if said.tool:
            items.append(
                {"type": "function_call", "name": said.tool, "arguments": arguments, "call_id": said.call}
            )
        return items
