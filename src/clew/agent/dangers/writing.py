"""Which files a command writes, and what is dangerous about writing there.

Knows the commands that write, and by which of their arguments; where a path leads is known to `danger_places`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clew.agent.dangers.places import is_disk, is_guarded
from clew.agent.dangers.programs import DESTINATIONS, OUTPUT_FLAGS, PACKERS, PACKS_FLAGS, VALUED_IN_WRITING
from clew.agent.dangers.seen import Danger, Seen, plain_of
from clew.agent.dangers.table import Kind
from clew.agent.shell import Word
from clew.agent.shown import shown


def writing(seen: Seen) -> Iterator[Danger]:
    for word in _written(seen):
        yield from written_to(seen, word)


def _written(seen: Seen) -> Iterator[Word]:
    valued = f"{OUTPUT_FLAGS.get(seen.name, '')} {VALUED_IN_WRITING.get(seen.name, '')}"
    plain = [word for word in plain_of(seen.args, valued) if word.text]  # BSD's `sed -i ''` has an empty one
    which = (
        None if seen.name in PACKERS and seen.has_flag("-c", "-l", "-t", "--stdout") else DESTINATIONS.get(seen.name)
    )
    if which is not None and plain:
        targets = {"last": plain[-1:], "all": plain, "rest": plain[1:], "first": plain[:1]}[which]
        yield from targets if which != "last" or len(plain) > 1 or seen.has_flag("-d") else []
    if seen.name in {"sed", "perl"} and any(re.match(r"-[nEerpl]*i|--in-place", text) for text in seen.texts):
        has_script = any(re.match(r"-[nErpl]*i?[ef]$|--expression|--file", text) for text in seen.texts)
        yield from plain if has_script else plain[1:]
    if seen.name == "git" and [word.text for word in seen.plain[:1]] == ["clone"]:
        yield from seen.plain[2:3]
    if seen.name == "git" and [word.text for word in seen.plain[:2]] == ["worktree", "add"]:
        yield from seen.plain[2:3]
    flags = OUTPUT_FLAGS.get(seen.name, "").split()
    for word, after in zip(seen.args, seen.args[1:], strict=False):
        if word.text in flags or _ends_with(seen.name, word.text, flags):
            yield after
    for word in seen.args:
        if (value := _attached(word.text, flags)) is not None:
            yield Word(value, word.variables, word.inner)
    for word in seen.args:
        flag, equals, value = word.text.partition("=")
        if equals and (flag in flags or (seen.name == "dd" and flag == "of")):
            yield Word(value, word.variables, word.inner)


def _attached(text: str, flags: list[str]) -> str | None:
    """`-o/tmp/x`: a value that stands in one word with its flag; only what begins like a path counts."""
    is_path = text[2:3] in ("/", "~", ".")
    return text[2:] if is_path and text[:2] in flags and text[1:2] != "-" else None


def _ends_with(name: str, text: str, flags: list[str]) -> bool:
    """`-sSLo x`: of flags in one word, the last has the value."""
    return name in PACKS_FLAGS and re.fullmatch(r"-[A-Za-z]{2,}", text) is not None and f"-{text[-1]}" in flags


def linking_out(seen: Seen) -> Iterator[Danger]:
    """`ln -s /etc link`: what is written to the link afterwards is written outside."""
    if seen.name != "ln" or not seen.has_flag("-s", "--symbolic"):
        return
    for word in seen.plain[:1]:
        if word.text.startswith(("/", "~")) and seen.place(word).where == "outside":
            yield seen.danger(Kind.OUTSIDE, f"makes a way out of the project, to {shown(seen.place(word).path)}")


def written_to(seen: Seen, word: Word) -> Iterator[Danger]:
    """What is dangerous about writing to a file."""
    place = seen.place(word)
    name = shown(seen.map.name(place))
    if re.match(r"/dev/(?:tcp|udp)/", place.path):
        yield seen.danger(Kind.SENDING, "opens a connection through which anything can go", always_ask=True)
    elif is_disk(place.path):
        yield seen.danger(Kind.DISK, f"writes over {name}", always_ask=True)
    elif place.where == "outside" and word.text != "-":
        is_of_person = seen.map.is_of_person(place.path)
        why = f"changes settings of the person or the machine: {name}" if is_of_person else f"writes to {name}"
        yield seen.danger(Kind.OUTSIDE, f"{why}, outside the project", name, always_ask=is_of_person)
    elif place.where == "inside" and is_guarded(place.path):
        yield seen.danger(Kind.HIDDEN_CODE, f"changes what git runs: {name}", name)
