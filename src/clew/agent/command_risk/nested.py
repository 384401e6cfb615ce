"""What a command runs: commands behind `sudo` and `xargs` or in `find -exec`, command lines in arguments, and code.

Code for interpreters, awk, sed and databases is searched for what `facts` lists; code in files is not opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from clew.agent.command_risk.command import Findings, InspectedCommand, rule
from clew.agent.command_risk.rules import written_to
from clew.agent.command_risk.secret_reads import outside_file, secret_file
from clew.agent.command_risk.tables import (
    CODE_FACTS,
    COMMAND_FLAGS,
    NAMES,
    SQL_FACTS,
    WRAPPERS,
    CodeFact,
    RiskKind,
    Wrapper,
    pattern_text,
)
from clew.agent.files.file_types import lasting_effect
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, SimpleCommand, Word, unescape


def program_name(word: Word) -> str:
    """A command by its name alone: `/usr/bin/rm` and `\\rm` are rm."""
    return word.text.rstrip("/").rpartition("/")[2]


def is_stdin(word: Word) -> bool:
    return word.text in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}


def assignments_in_arguments(command: InspectedCommand) -> Iterator[tuple[str, Word]]:
    """`export X=1`, `env X=1 command`: assignments that are arguments."""
    if command.name in {"export", "declare", "typeset", "readonly", "local", "env"}:
        for word in command.args:
            name, equals, value = word.text.partition("=")
            if equals:
                yield name, replace(word, text=value)


def command_lines_in(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that are run as command lines."""
    flags = COMMAND_FLAGS.get(command.name, "").split()
    for word, after in zip(command.args, command.args[1:], strict=False):
        if word.text in flags:
            yield after
    for word in command.args:
        flag, equals, value = word.text.partition("=")
        if equals and (flag in flags or command.name == "alias"):
            yield replace(word, text=value)
        elif command.name == "watch" and " " in word.text:
            yield word
    if command.is_git("submodule", "foreach"):
        yield from command.positional[2:3]


def find_wrapper(words: list[Word], command: InspectedCommand) -> tuple[Wrapper | None, list[Word]]:
    """The wrapper that a command begins with, and the words after its name."""
    if command.name == "command" and command.has_flag("-v", "-V"):
        return None, []
    plain = list(command.positional)
    for count in (2, 1, 0):
        name = " ".join([command.name, *(word.text for word in plain[:count])])
        if len(plain) >= count and (wrapper := WRAPPERS.get(name)) is not None:
            start = words.index(plain[count - 1]) + 1 if count else 1
            return wrapper, words[start:]
    return None, []


def wrapped_words(wrapper: Wrapper, words: list[Word]) -> list[Word]:
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


def find_exec_commands(words: list[Word]) -> Iterator[list[Word]]:
    """Commands that `find` runs for what it finds."""
    starts = [at for at, word in enumerate(words) if word.text in {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X"}]
    for start in starts:
        ends = next((at for at in range(start, len(words)) if words[at].text in {";", "+"}), len(words))
        inner = [replace(word, text=word.text.replace("{}", UNKNOWN)) for word in words[start + 1 : ends]]
        # What rm deletes is reported by the rule for find itself.
        if inner and program_name(inner[0]) not in {"rm", "unlink", "shred"}:
            yield inner


def pipe_sources(source: SimpleCommand | None) -> Iterator[str]:
    """Names of the commands that feed a pipe."""
    while source is not None:
        for word in source.words[:6]:
            yield program_name(word)
        source = source.piped_from


_AWK_RUNS = re.compile(
    r'\bsystem\s*\(|\|&?\s*"(?!(?:sort|uniq|head|tail|column|wc|cat|tr|fmt|nl|tac)\b)|\|&?\s*getline|'
    r"\bprintf?\b[^|/;}\n]{0,300}\|&?\s*[A-Za-z_(]|@load\b|@include\b"
)
_AWK_READS = re.compile(r'getline\s*(?:\w+\s*)?<\s*"([^"]*)"')
_AWK_WRITES = re.compile(r'>\s*"([/~.A-Z][^"]*)"')
_AWK_SHOWS = re.compile(rf"\bENVIRON\b(?!{pattern_text('%HARMLESS_READ%')})|\bPROCINFO\b")
_SED_ADDRESS = r"(?:^|[;{}\n])\s*(?:\d+|\$|/(?:\\.|[^/\\])*/)?(?:,(?:\d+|\$|/(?:\\.|[^/\\])*/))?\s*"
_SED_CHANGE = r"s([^\w\s\\])(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1"
_SED_RUNS = re.compile(rf"{_SED_ADDRESS}(?:e(?:\s+\S|\s*$)|{_SED_CHANGE}[gpiIMm\d]*e)")
_SED_WRITES = re.compile(rf"{_SED_ADDRESS}[wW]\s*([/~.\w]\S*)")


@rule()
def database_loss(command: InspectedCommand) -> Findings:
    if command.name in NAMES["SQL_CLIENTS"]:
        texts = [*command.texts, command.parsed.stdin_text or "", printed_text(command.parsed.piped_from) or ""]
        yield from _facts_in(command, texts, SQL_FACTS)


@rule("awk gawk mawk nawk")
def awk_code(command: InspectedCommand) -> Findings:
    if any(_AWK_RUNS.search(text) for text in command.texts):
        yield command.finding(RiskKind.HIDDEN_CODE, "the code runs other commands")
    if any(_AWK_SHOWS.search(text) for text in command.texts):
        yield command.finding(RiskKind.SECRETS, "shows variables, with the keys among them", "every variable")
    for path in (found[1] for text in command.texts for found in _AWK_WRITES.finditer(text)):
        yield from written_to(command, Word(path))


@rule("awk gawk mawk nawk")
def awk_reads(command: InspectedCommand) -> Findings:
    """`getline < ".env"`."""
    for text in command.texts:
        for found in _AWK_READS.finditer(text):
            yield from secret_file(command, Word(found[1]))
            yield from outside_file(command, Word(found[1]))


_SED_READS = re.compile(rf"{_SED_ADDRESS}[rR]\s*(\S+)")


@rule("sed gsed")
def sed_code(command: InspectedCommand) -> Findings:
    """Scripts of sed can run commands (`e`) and write files (`w`)."""
    if any(_SED_RUNS.search(text) for text in command.texts):
        yield command.finding(RiskKind.HIDDEN_CODE, "the script runs other commands")
    for path in (found[1] for text in command.texts for found in _SED_READS.finditer(text)):
        yield from secret_file(command, Word(path))
        yield from outside_file(command, Word(path))
    for path in (found[1] for text in command.texts for found in _SED_WRITES.finditer(text)):
        yield from written_to(command, Word(path))


def code_findings(command: InspectedCommand, code: str) -> Findings:
    """What is dangerous about code for an interpreter."""
    yield from _facts_in(command, [code], CODE_FACTS)
    yield from _facts_in(command, [code] if re.search(r"execute|query|cursor", code) else [], SQL_FACTS[:3])
    yield from _files_in_code(command, code)
    if command.name in {"perl", "ruby", "php"} and re.search(r"`[^`]+`|\bqx\b|%x", code):
        yield command.finding(RiskKind.HIDDEN_CODE, "the code runs other commands")


_LITERAL = re.compile(r"""['"]([^'"\s]{2,200})['"]""")
_READS = re.compile(
    r"\bopen\b|[Rr]ead|\bload|\bslurp|\bIO\b|\bFile\b|file_get|\bcopy|\blink|\bglob|listdir|walk|scandir|connect|"
    r"require\s*\(?\s*['\"](?:\.\.|/)|\bimport\b.*['\"](?:\.\.|/)|<"
)
_WRITES = re.compile(r"""write|['"][wax]b?\+?['"]|append|copy|move|rename|link|replace|dump|touch|>""", re.IGNORECASE)


def _files_in_code(command: InspectedCommand, code: str) -> Findings:
    """Files that code names: secrets, and those with an effect later on where the code writes something."""
    for name in dict.fromkeys(found[1] for found in _LITERAL.finditer(code)):
        if "/" in name or "." in name:
            yield from secret_file(command, Word(name))
        if _READS.search(code):
            yield from outside_file(command, Word(name))
        if (effect := lasting_effect(name)) and _WRITES.search(code):
            yield command.finding(RiskKind.LASTING, f"the code may change {effect}: {printable_line(name)}")


def _facts_in(command: InspectedCommand, texts: list[str], facts: tuple[CodeFact, ...]) -> Findings:
    for fact in facts:
        if any(fact.pattern.search(text) for text in texts):
            yield command.finding(fact.kind, fact.reason, always_ask=fact.always_ask)


def printed_text(source: SimpleCommand | None) -> str | None:
    """What a command prints into a pipe, where its text is on the line."""
    while source is not None and source.words:
        name, *rest = (word.text for word in source.words)
        if name in {"echo", "printf"}:
            texts = (text for text in rest if not re.fullmatch(r"-[neE]+|%s(?:\\n)?", text))
            return unescape(" ".join(texts))
        if name != "cat" or rest not in ([], ["-"]):
            return None
        if source.stdin_text is not None:
            return source.stdin_text
        source = source.piped_from
    return None


# -- code that other commands print ------------------------------------------------------------------------------------


def ends_with_flag(text: str, flags: list[str]) -> bool:
    """`-lne` ends with -e; `-MFile::Path` is a module."""
    return text[0] == "-" and text[1] not in "-MI" and any(len(flag) == 2 and text.endswith(flag[1]) for flag in flags)


def known_input(simple: SimpleCommand) -> str | None:
    return simple.stdin_text if simple.stdin_text is not None else printed_text(simple.piped_from)


def piped_code_findings(command: InspectedCommand) -> Findings:
    """Code that comes through a pipe."""
    if command.parsed.piped_from is not None:
        names = set(pipe_sources(command.parsed.piped_from))
        yield from _printed_code_findings(
            command, names, is_hidden=bool(names & NAMES["DECODERS"]) or "cat" not in names
        )


def substituted_code_findings(command: InspectedCommand, word: Word) -> Findings:
    """Code that is the output of other commands: `$( )`, `<( )`."""
    if not word.substitutions or word.is_known:
        return
    names = {name for inner in word.substitutions for name in pipe_sources(inner)}
    is_run = command.name in {"eval", "source", ".", *NAMES["SHELLS"]}
    yield from _printed_code_findings(command, names, is_hidden=is_run or bool(names & NAMES["DECODERS"]))


def _printed_code_findings(command: InspectedCommand, names: set[str], *, is_hidden: bool) -> Findings:
    """Code that is printed by commands with these names."""
    if names & NAMES["DOWNLOADERS"]:
        yield command.finding(RiskKind.REMOTE_CODE, "runs what it downloads, unseen", always_ask=True)
    elif is_hidden:
        yield command.finding(RiskKind.HIDDEN_CODE, "runs what another command prints, unseen", always_ask=True)
