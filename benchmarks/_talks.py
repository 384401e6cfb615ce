"""Made-up long talks with questions and the messages that answer them: the input of the search figures.

Two kinds: two people who write to each other over months, and one person with an assistant whose replies are long. What
is said comes from `talks/develop.txt` and `talks/held_out.txt`: topics with small talk, advice, and facts, each with
two questions, in other words and in the same. The ranking was worked on with the first file only; the second has other
topics. A fact may be the answer to what the other one asked (`hear`), may be told with a day relative to the message
("yesterday"), or be spread over many messages (`many`). The same seed gives the same talks on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal

TEMPLATES = Path(__file__).resolve().parent / "talks"
Kind = Literal["said", "next turn", "dated", "by date", "many"]
_NAMES = "Amara Lukas Ingrid Tomas Yuki Selma Rafael Odile Kofi Hanne Dmitri Leila".split()
_choice = re.compile(r"\{([^{}]*\|[^{}]*)\}")
_SMALL_TALK = (
    "{Wow|Oh|Ha}, {that's wonderful|that sounds great|I love that}, {other}!",
    "{Thanks|Thank you}, {other}, {that means a lot|you're the best|I needed that}.",
    "{Really?|No way!|Seriously?} {Tell me more|How was it|How did that feel}?",
    "{Take care|Talk soon|Good night}, {other}! {It was nice to chat|Until next time|Hugs}.",
    "{Hey|Hi|Hello} {other}! {Long time no see|How have you been|What's up}?",
    "I {totally agree|know what you mean|feel the same}, {it's not easy|that's life|one day at a time}.",
    "{That must have been hard|You should be proud|I'm so happy for you}, {other}.",
    "{Same here|Not much|All good here}, {just the usual|busy as ever|a quiet week}.",
)
_ASKS_HELP = (
    "Could you give me some tips on that?",
    "Anyway, what would you suggest?",
    "Do you have a plan for me for the next weeks?",
    "What should I watch out for?",
    "By the way, can you explain how others do this?",
)
_OPENINGS = (
    "Of course! Here is an overview that should help.",
    "That is a great question, and there are several things to consider.",
    "Happy to help. Let me go through the most important points one by one.",
)
_CLOSINGS = ("Let me know how it goes!", "Would you like me to go into more detail?", "I hope that this helps.")


@dataclass(slots=True)
class FactTemplate:
    """Something that is told, and the question for it; `hear` is what the other one asked before."""

    say: list[str] = field(default_factory=list)
    hear: str = ""
    ask: list[str] = field(default_factory=list)
    """The first in other words than it was said, the second in the same."""
    is_many: bool = False


@dataclass(slots=True)
class Topic:
    name: str
    chat: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    facts: list[FactTemplate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Turn:
    speaker: str
    text: str
    at: datetime
    role: Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class TalkQuestion:
    """A question, and the numbers of the turns that answer it."""

    text: str
    evidence: frozenset[int]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Talk:
    turns: list[Turn]
    questions: list[TalkQuestion]


@dataclass(slots=True)
class _Fact:
    """A fact as it will be told in this talk: its turns in groups, by whom, and the questions for it."""

    groups: list[list[tuple[bool, str]]]
    speaker: int
    ask: list[str]
    kind: Kind
    topic: Topic
    when: tuple[str, int] | None = None
    told: list[int] = field(default_factory=list)
    day: datetime | None = None


def read_topics(name: str) -> list[Topic]:
    """The topics of a file of templates: `develop` or `held_out`."""
    topics: list[Topic] = []
    for line in (TEMPLATES / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        word, _, rest = line.partition(" ")
        if word == "topic":
            topics.append(Topic(rest))
        elif word in ("fact", "many"):
            topics[-1].facts.append(FactTemplate(is_many=word == "many"))
        elif word in ("chat:", "advice:"):
            (topics[-1].chat if word == "chat:" else topics[-1].advice).append(rest)
        elif word in ("say:", "ask:"):
            (topics[-1].facts[-1].say if word == "say:" else topics[-1].facts[-1].ask).append(rest)
        elif word == "hear:":
            topics[-1].facts[-1].hear = rest
    return topics


def talk_of_two(topics: Sequence[Topic], turns: int, seed: int, *, named: bool = True) -> Talk:
    """Two people over months, about 24 turns a day on which they write. With `named` each turn begins with the name."""
    rng = Random(seed)
    people = rng.sample(_NAMES, 2)
    told = [fact for topic in topics for fact in _facts_of(topic, rng, people)]
    days = _days(turns // 24, rng)
    plan = _planned(told, len(days), rng)
    written: list[Turn] = []
    for day, facts in zip(days, plan, strict=True):
        _write_day(written, day, (turns // len(days), facts), (topics, people), rng)
    prefix = [f"{turn.speaker}: " if named else "" for turn in written]
    shown = [Turn(it.speaker, start + it.text, it.at, it.role) for start, it in zip(prefix, written, strict=True)]
    return Talk(shown, [question for fact in told for question in _questions(fact, people)])


def talk_with_assistant(topics: Sequence[Topic], turns: int, seed: int) -> Talk:
    """A person who tells things beside short requests, and an assistant whose replies are long."""
    rng = Random(seed)
    people = [rng.choice(_NAMES), "assistant"]
    told = [fact for topic in topics for fact in _facts_of(topic, rng, people, only=0)]
    days = _days(turns // 12, rng)
    written: list[Turn] = []
    for day, facts in zip(days, _planned(told, len(days), rng), strict=True):
        topic = rng.choice(topics)
        groups: list[tuple[_Fact | None, list[tuple[bool, str]]]] = list(facts)
        while len(groups) < 6:
            groups.insert(rng.randint(0, len(groups)), (None, [(True, _filled(rng.choice(topic.chat), rng, people))]))
        for fact, group in groups:
            _write_exchange(written, day, fact, (group, topic), (topics, people), rng)
    questions = [question for fact in told for question in _questions(fact, people)]
    return Talk(written, [TalkQuestion(_in_first_person(it.text, people[0]), it.evidence, it.kind) for it in questions])


def _days(count: int, rng: Random) -> list[datetime]:
    day = datetime(2023, 1, 3, 9, tzinfo=UTC)
    days: list[datetime] = []
    for _ in range(max(4, count)):
        day += timedelta(days=rng.randint(1, 6 if count < 100 else 2))
        days.append(day.replace(hour=rng.randint(8, 21), minute=rng.randint(0, 59)))
    return days


def _facts_of(topic: Topic, rng: Random, people: Sequence[str], only: int | None = None) -> Iterator[_Fact]:
    """The facts of a topic for one of the two; of some, the other one tells a like one, which nobody asks for."""
    for template in topic.facts:
        speaker = rng.randint(0, 1) if only is None else only
        yield _told(topic, template, speaker, rng, people)
        if only is None and rng.random() < 0.4:
            other = _told(topic, template, 1 - speaker, rng, people)
            other.ask = []
            yield other


def _told(topic: Topic, template: FactTemplate, speaker: int, rng: Random, people: Sequence[str]) -> _Fact:
    when = _relative_day(rng) if any("{when}" in say for say in template.say) else None
    mine = [people[speaker], people[1 - speaker]]
    said = [_filled(say.replace("{when}", when[0] if when else ""), rng, mine) for say in template.say]
    heard = [(False, _filled(template.hear, rng, mine))] if template.hear else []
    groups = [[*heard, (True, text)] for text in said]
    kind: Kind = "many" if template.is_many else "dated" if when else "next turn" if heard else "said"
    return _Fact(groups, speaker, template.ask, kind, topic, when)


def _relative_day(rng: Random) -> tuple[str, int]:
    """A day as people say it, and how many days before the message it was (0: only the week or month is known)."""
    return rng.choice(
        [
            ("yesterday", 1), ("today", 0), ("two days ago", 2), ("last week", 7), ("last weekend", 5),
            ("last month", 30), ("this morning", 0), ("three days ago", 3), ("the day before yesterday", 2),
            ("a week ago", 7),
        ]
    )  # fmt: skip


def _planned(facts: Sequence[_Fact], days: int, rng: Random) -> list[list[tuple[_Fact, list[tuple[bool, str]]]]]:
    """What is told on which day; the messages of one fact on different days."""
    plan: list[list[tuple[_Fact, list[tuple[bool, str]]]]] = [[] for _ in range(days)]
    for fact in facts:
        chosen = sorted(rng.sample(range(days), min(days, len(fact.groups))))
        for day, group in zip(chosen, fact.groups, strict=False):
            plan[day].append((fact, group))
    return plan


def _write_day(
    written: list[Turn],
    day: datetime,
    wanted: tuple[int, Sequence[tuple[_Fact, list[tuple[bool, str]]]]],
    cast: tuple[Sequence[Topic], Sequence[str]],
    rng: Random,
) -> None:
    """The turns of a day: small talk and chat about two or three topics, with the facts between them."""
    (length, facts), (topics, people) = wanted, cast
    subjects = rng.sample(list(topics), min(3, len(topics)))
    begin, speaker = len(written), rng.randint(0, 1)
    at = sorted(rng.sample(range(1, max(length, len(facts) + 2)), len(facts)))
    waiting = dict(zip(at, facts, strict=True))
    number = 0
    while number < length or waiting:
        if waiting and min(waiting) <= number:
            fact, group = waiting.pop(min(waiting))
            # People come to a subject before they tell something of it.
            lead_in = [(False, _filled(rng.choice(fact.topic.chat), rng, people))] if rng.random() < 0.7 else []
            for own, text in [*lead_in, *group]:
                speaker = fact.speaker if own else 1 - fact.speaker
                if own:
                    fact.told.append(len(written))
                    fact.day = day
                _write(written, begin, day, people[speaker], text)
        else:
            speaker = 1 - speaker
            pool = _SMALL_TALK if rng.random() < 0.35 else rng.choice(subjects).chat
            _write(
                written,
                begin,
                day,
                people[speaker],
                _filled(rng.choice(pool), rng, [people[speaker], people[1 - speaker]]),
            )
        number += 1


def _write(written: list[Turn], begin: int, day: datetime, speaker: str, text: str) -> None:
    at = day + timedelta(minutes=len(written) - begin)
    written.append(Turn(speaker, text, at, "assistant" if written and written[-1].role == "user" else "user"))


def _write_exchange(
    written: list[Turn],
    day: datetime,
    fact: _Fact | None,
    said: tuple[list[tuple[bool, str]], Topic],
    cast: tuple[Sequence[Topic], Sequence[str]],
    rng: Random,
) -> None:
    (group, topic), (topics, people) = said, cast
    about = topic if fact is None else fact.topic
    at = day + timedelta(minutes=len(written) % 12)
    heard = next((text for own, text in group if not own), "")
    if heard:
        written.append(Turn(people[0], rng.choice(_ASKS_HELP), at, "user"))
        written.append(Turn("assistant", f"{_long_reply(about, topics, rng)} {heard}", at, "assistant"))
    own = next(text for is_own, text in group if is_own)
    if fact is not None:
        fact.told.append(len(written))
        fact.day = day
    written.append(Turn(people[0], own if heard else f"{own} {rng.choice(_ASKS_HELP)}", at, "user"))
    echo = f"You said: {_in_second_person(own)} " if rng.random() < 0.6 else ""
    written.append(Turn("assistant", echo + _long_reply(about, topics, rng), at, "assistant"))


def _in_second_person(text: str) -> str:
    """What a person said of herself, as a reply repeats it."""
    for first, second in ((r"\bI'm\b", "you are"), (r"\bI\b", "you"), (r"\b[Mm]y\b", "your"), (r"\bme\b", "you")):
        text = re.sub(first, second, text)
    return text


def _long_reply(topic: Topic, topics: Sequence[Topic], rng: Random) -> str:
    points = rng.sample(topic.advice, 4) + [rng.choice(rng.choice(topics).advice) for _ in range(rng.randint(2, 8))]
    lines = [f"{number}. {point}" for number, point in enumerate(points, 1)]
    return "\n".join([rng.choice(_OPENINGS), *lines, rng.choice(_CLOSINGS)])


def _questions(fact: _Fact, people: Sequence[str]) -> Iterator[TalkQuestion]:
    if not fact.ask:
        return
    name = people[fact.speaker]
    evidence = frozenset(fact.told)
    for ask in fact.ask:
        yield TalkQuestion(ask.replace("{name}", name), evidence, fact.kind)
    if fact.when is not None and fact.day is not None and fact.when[1] in (1, 2, 3):
        day = fact.day - timedelta(days=fact.when[1])
        yield TalkQuestion(f"What did {name} do on {day.day} {day:%B %Y}?", evidence, "by date")


def _filled(template: str, rng: Random, people: Sequence[str]) -> str:
    text = _choice.sub(lambda found: rng.choice(found[1].split("|")), template)
    return text.replace("{name}", people[0]).replace("{other}", people[-1])


def _in_first_person(question: str, name: str) -> str:
    """A question about a person as that person asks it."""
    for third, first in (
        (f"does {name}", "do I"), (f"has {name}", "have I"), (f"is {name} ", "am I "), (f"{name}'s", "my"),
        (f"of {name}", "of mine"), (name, "I"),
    ):  # fmt: skip
        question = question.replace(third, first)
    return question
