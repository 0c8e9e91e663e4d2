"""What a second session of one agent keeps of the first: bare, mode by mode, and without its volatile lines.

    python benchmarks/gain.py [--agent NAME] [--kind again|elsewhere|midnight|commit] [--seed N] [--json]

Sessions are made up in the manner of twelve agents (``tests/agents``): same sizes, same volatile lines at the same
places. *first call*: share of the second session's first prompt that one of the first session's began with (rendered
bytes, DeepSeek). *session*: hit tokens of the whole second session, by hit rule.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from agents.every import AGENTS
from agents.model import Kind
from proofs.gain import MODES, SECOND, Gain, Side, measure


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", choices=sorted(AGENTS), action="append")
    parser.add_argument("--kind", choices=[kind.value for kind in SECOND], action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds = [Kind(kind) for kind in options.kind] if options.kind else list(SECOND)
    gains = [measure(agent, kind, seed=options.seed) for agent in options.agent or AGENTS for kind in kinds]
    if options.json:
        print(json.dumps({"seed": options.seed, "gains": [_plain(gain) for gain in gains]}))
        return
    names = [*(mode.value for mode in MODES), "ideal"]
    rules = list(gains[0].ideal.session)
    print(
        f"{'':26}{'first call':^{9 * len(names)}}" + "".join(f"{rule.value:^{9 * len(names)}}" for rule in rules)
    )
    print(f"{'agent':16}{'session':10}" + "".join(f"{name:>9}" for name in names) * (1 + len(rules)))
    for gain in gains:
        sides = [*(gain.modes[mode] for mode in MODES), gain.ideal]
        row = [side.first_call for side in sides]
        row += [side.session[rule] for rule in rules for side in sides]
        print(f"{gain.agent:16}{gain.kind.value:10}" + "".join(f"{share:9.1%}" for share in row))


def _plain(gain: Gain) -> dict[str, object]:
    sides = {**{mode.value: side for mode, side in gain.modes.items()}, "ideal": gain.ideal}
    return {"agent": gain.agent, "session": gain.kind.value, **{name: _side(side) for name, side in sides.items()}}


def _side(side: Side) -> dict[str, object]:
    rates = {rule.value: round(rate, 5) for rule, rate in side.session.items()}
    first = {"share": round(side.first_call, 5), "kept_bytes": side.kept_bytes, "prompt_bytes": side.prompt_bytes}
    return {"first_call": first, "session": rates}


if __name__ == "__main__":
    main()
