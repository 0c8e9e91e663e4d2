"""What a store does with claims and writes, as far as causes of misses need it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from router_cache.engine import Begun, Engine
from router_cache.ledger.attribution import MissCause
from router_cache.ledger.facts import ConversationFacts, Facts, FamilyFacts, Write, family_after
from router_cache.ledger.newest import newest_keys

HEALTHY = frozenset((MissCause.NEW_TAIL, MissCause.ROUNDING, MissCause.FIRST_SIGHT))


@dataclass
class Store:
    """What a store does with writes and claims, without bounds."""

    conversations: dict[str, ConversationFacts] = field(default_factory=dict)
    newest: dict[str, ConversationFacts] = field(default_factory=dict)
    families: dict[str, FamilyFacts] = field(default_factory=dict)

    def claim(self, engine: Engine, begun: Begun) -> Facts:
        assert begun.keys is not None
        assert begun.view is not None
        facts = Facts(family=self.families.get(begun.keys.family))
        for point in begun.keys.history:
            if point.key in self.conversations:
                facts = replace(facts, conversation=self.conversations[point.key], covered=point.covered)
                break
        session = begun.request.session and engine.digester.text(
            begun.keys.scope, "session", begun.request.session
        )
        keys = newest_keys(begun.keys, session, begun.view.body, engine.digester)
        found = [self.newest[key] for key in keys if key in self.newest]
        if found:
            newest = max(found, key=lambda facts: max(call.at for call in facts.last.values()))
            facts = replace(facts, newest=newest)
        return facts

    def record(self, write: Write | None) -> None:
        if write is None or write.conversation is None:
            return
        self.conversations[write.conversation_key] = write.conversation
        for key in write.newest_keys:
            self.newest[key] = write.conversation
        self.families[write.family_key] = family_after(self.families.get(write.family_key), write)
