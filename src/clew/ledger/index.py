"""Where each atom was seen, by whom, how often and how late; and from that, what it is worth keeping.

Grows with each message by the atoms of that message, at a cost that depends on it alone.
"""

from __future__ import annotations

import math
from itertools import islice

from clew.ledger.atoms import atoms_in, is_name, is_path, words_in
from clew.messages import Message, calls_of, name_of_call, text_of

_PLACES_KEPT = 2
_ASKED_CHARS = 6_000


class Sighting:
    """What is known of one atom."""

    __slots__ = ("last", "last_said", "messages", "places", "results", "said", "user")

    def __init__(self) -> None:
        self.messages = 0
        self.user = 0
        self.said = 0
        self.results = 0
        self.last = 0
        self.last_said = -1
        self.places: tuple[int, ...] = ()


class AtomIndex:
    """The atoms of the messages so far."""

    def __init__(self) -> None:
        self.seen: dict[str, Sighting] = {}
        self.last = 0
        self._asked: set[str] = set()
        """The words of what people asked for: an atom made of them is likely part of the task."""

    def add(self, message: Message, number: int) -> None:
        self.last = number
        role = message["role"]
        if role == "user":
            self._asked |= words_in(text_of(message)[:_ASKED_CHARS])
        seen = self.seen
        for atom in atoms_in(whole_text(message)):
            # Taken out and put back, so that the atoms stand in the order of their last sighting.
            sighting = seen.pop(atom, None) or Sighting()
            seen[atom] = sighting
            sighting.messages += 1
            sighting.last = number
            sighting.places = (*sighting.places[1 - _PLACES_KEPT :], number)
            if role == "tool":
                sighting.results += 1
            elif role == "assistant":
                sighting.said += 1
                sighting.last_said = number
            else:
                sighting.user += 1

    def newest(self, most: int) -> list[str]:
        """The atoms that were seen last."""
        return list(islice(reversed(self.seen), most))

    def worth(self, atom: str, first: int) -> float:
        """How likely the atom is needed again, between 0 and 1, when the story begins at message `first`.

        The weights were fitted by hand on what agents really used again: what the agent itself wrote or a person
        named counts most, then how late and how often; an atom that many results show is seldom one to remember.
        """
        sighting = self.seen[atom]
        span = max(1, self.last - first)
        score = -3.0 + 0.9 * math.log1p(sighting.messages) - 0.6 * math.log1p(sighting.results)
        score += 1.2 * max(0.0, (sighting.last - first) / span)
        if sighting.said:
            score += 0.8 + max(0.0, (sighting.last_said - first) / span)
        if sighting.user:
            score += 0.8
        if is_path(atom):
            score += 0.9 if "." in atom else 0.3
        elif is_name(atom):
            score += 0.8
        if not self._asked.isdisjoint(words_in(atom)):
            score += 1.0
        return 1 / (1 + math.exp(-score))


def parts_of(message: Message) -> list[str]:
    """The texts of a message that can be quoted: its content, then each call as the model wrote it."""
    calls = [f"{name_of_call(call)} {call['function'].get('arguments', '')}" for call in calls_of(message)]
    return [text_of(message), *calls]


def whole_text(message: Message) -> str:
    return "\n".join(parts_of(message))
