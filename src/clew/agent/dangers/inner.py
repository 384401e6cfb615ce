"""The commands inside a command: behind `sudo` and `xargs`, in `find -exec`, in arguments that are command lines.

Takes words apart by the table of programs; judges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from clew.agent.dangers.programs import INTERPRETERS, LINE_FLAGS, WRAPPERS, Wrapper
from clew.agent.dangers.seen import Seen
from clew.agent.shell import UNKNOWN, Simple, Word

_WRAPPERS = {wrapper.name: wrapper for wrapper in WRAPPERS}


def name_of(word: Word) -> str:
    """A command by its name alone: `/usr/bin/rm` and `\\rm` are rm."""
    return word.text.rpartition("/")[2]


def interpreter_in(name: str) -> str:
    """The name in the table, without a version; empty for what is no interpreter."""
    return next((one for one in (name, re.sub(r"[\d.]+$", "", name)) if one in INTERPRETERS), "")


def is_stdin(word: Word) -> bool:
    return word.text in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}


def set_by_words(seen: Seen) -> Iterator[tuple[str, Word]]:
    """`export X=1`, `env X=1 command`: settings that stand as arguments."""
    if seen.name in {"export", "declare", "typeset", "readonly", "local", "env"}:
        for word in seen.args:
            name, equals, value = word.text.partition("=")
            if equals:
                yield name, replace(word, text=value)


def lines_in(seen: Seen) -> Iterator[Word]:
    """Arguments that are run as command lines."""
    flags = LINE_FLAGS.get(seen.name, "").split()
    for word, after in zip(seen.args, seen.args[1:], strict=False):
        if word.text in flags:
            yield after
    for word in seen.args:
        flag, equals, value = word.text.partition("=")
        if equals and (flag in flags or seen.name == "alias"):
            yield replace(word, text=value)
        elif seen.name == "watch" and " " in word.text:
            yield word
    if seen.name == "git" and [word.text for word in seen.plain[:2]] == ["submodule", "foreach"]:
        yield from seen.plain[2:3]


def wrapper_of(words: list[Word], seen: Seen) -> tuple[Wrapper | None, list[Word]]:
    """The wrapper that these words begin with, and the words after its name."""
    if seen.name == "command" and seen.has_flag("-v", "-V"):
        return None, []
    plain = list(seen.plain)
    for count in (2, 1, 0):
        name = " ".join([seen.name, *(word.text for word in plain[:count])])
        if len(plain) >= count and (wrapper := _WRAPPERS.get(name)) is not None:
            start = words.index(plain[count - 1]) + 1 if count else 1
            return wrapper, words[start:]
    return None, []


def inner_words(wrapper: Wrapper, words: list[Word]) -> list[Word]:
    """The command that a wrapper runs."""
    valued, skips, at = wrapper.valued.split(), wrapper.skips, 0
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            if not skips:
                break
            skips = 0
        elif text.startswith("-") and (len(text) > 1 or wrapper.name == "env"):
            at += 2 if text in valued else 1
        elif wrapper.name in {"env", "sudo", "doas"} and "=" in text and not text.startswith("="):
            at += 1
        elif skips:
            skips -= 1
            at += 1
        else:
            break
    inner = words[at:]
    if wrapper.adds_arguments and inner:
        return [replace(word, text=word.text.replace("{}", UNKNOWN)) for word in inner] + [Word(UNKNOWN)]
    return inner


def runs_of_find(words: list[Word]) -> Iterator[list[Word]]:
    """Commands that `find` runs for what it finds."""
    starts = [at for at, word in enumerate(words) if word.text in {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X"}]
    for start in starts:
        ends = next((at for at in range(start, len(words)) if words[at].text in {";", "+"}), len(words))
        inner = [replace(word, text=word.text.replace("{}", UNKNOWN)) for word in words[start + 1 : ends]]
        # What rm deletes is said by the rule for find itself.
        if inner and name_of(inner[0]) not in {"rm", "unlink", "shred"}:
            yield inner


def sources_of(simple: Simple | None) -> Iterator[str]:
    """Names of the commands that feed a pipe."""
    while simple is not None:
        for word in simple.words[:6]:
            yield name_of(word)
        simple = simple.left
