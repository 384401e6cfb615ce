"""Where each atom was seen, by whom, how often and how late; and from that, what it is worth keeping.

Grows with each message by the atoms of that message, at a cost that depends on it alone.
"""

from __future__ import annotations

import heapq
import math

from clew.ledger.atoms import atoms_by_word, is_name, is_path, telling_words, words_in
from clew.ledger.tools import written_arguments
from clew.messages import Message, calls_of, name_of_call, text_of

_ASKED_CHARS = 6_000
_NOWHERE = -1


class Sighting:
    """What is known of one atom: in how many messages of people, the agent and tools it stands, and in which last."""

    __slots__ = ("before", "last", "last_said", "results", "said", "user")

    def __init__(self) -> None:
        self.user = 0
        self.said = 0
        self.results = 0
        self.last = _NOWHERE
        self.before = _NOWHERE
        """The last message but one."""
        self.last_said = _NOWHERE

    @property
    def messages(self) -> int:
        return self.user + self.said + self.results

    @property
    def places(self) -> tuple[int, ...]:
        """The messages to quote it from, the newest first."""
        return (self.last, self.before) if self.before != _NOWHERE else (self.last,)


class AtomIndex:
    """The atoms of the messages so far."""

    def __init__(self) -> None:
        self.seen: dict[str, Sighting] = {}
        self.last = 0
        self._by_word: dict[str, tuple[Sighting, ...]] = {}
        self._asked: set[str] = set()
        """The words of what people asked for: an atom made of them is likely part of the task."""

    def add(self, message: Message, number: int) -> None:
        self.last = number
        role = message["role"]
        text = whole_text(message)
        new = []
        known = self._by_word
        words = telling_words(text)
        if unknown := words.difference(known):
            self._learn(unknown)
        for word in words:
            # Words, not atoms, are looked up: most words come again, and then nothing has to be taken apart.
            for sighting in known.get(word, ()):
                if sighting.last != number:
                    sighting.before = sighting.last
                    sighting.last = number
                    new.append(sighting)
        if role == "tool":
            for sighting in new:
                sighting.results += 1
        elif role == "assistant":
            for sighting in new:
                sighting.said += 1
                sighting.last_said = number
        else:
            self._asked |= words_in(text[:_ASKED_CHARS])
            for sighting in new:
                sighting.user += 1

    def newest(self, most: int) -> list[str]:
        """The atoms that were seen last."""
        if len(self.seen) <= most:
            return sorted(self.seen)
        oldest = heapq.nlargest(most, (sighting.last for sighting in self.seen.values()))[-1]
        newer = sorted(atom for atom, sighting in self.seen.items() if sighting.last > oldest)
        # Words come out of a set in any order, so which of the equally old ones are taken must not hang on that.
        as_old = sorted(atom for atom, sighting in self.seen.items() if sighting.last == oldest)
        return [*newer, *as_old[: most - len(newer)]]

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

    def _learn(self, words: set[str]) -> None:
        for word, atoms in atoms_by_word(words).items():
            for atom in atoms:
                if atom not in self.seen:
                    self.seen[atom] = Sighting()
            self._by_word[word] = tuple(self.seen[atom] for atom in atoms)


def parts_of(message: Message) -> list[str]:
    """The texts of a message that can be quoted: its content, then each call as the model wrote it."""
    calls = [f"{name_of_call(call)} {written_arguments(call)}" for call in calls_of(message)]
    return [text_of(message), *calls]


def whole_text(message: Message) -> str:
    return "\n".join(parts_of(message))
