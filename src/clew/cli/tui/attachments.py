"""Attachments of a question: files, folders and pictures named by an @, and outputs of commands that the user ran.

`question_message` builds the message, and `typed_line` extracts the typed text from it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from clew.agent.files.file_types import binary_kind, count_lines, decode_file, is_binary
from clew.cli.pages import plural
from clew.errors import InvalidArgument
from clew.messages import Message, Part, text_of

MAX_IMAGE_BYTES = 10 * 1024 * 1024
MAX_FILE_BYTES = 20 * 1024 * 1024
DEFAULT_FILE_CHARS = 100_000
MAX_LISTED = 300
_IMAGE_TYPES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}
_NAMED = re.compile(r'(?<![\w@/.])@(?:"([^"\n]+)"|([^\s"]+))')
_LOOKS_LIKE_A_PATH = re.compile(r"[\w.~+-]*/[\w./~+-]*|[\w~+-][\w.~+-]*\.\w{1,8}")
_ATTACHED = re.compile(r"\n\n<(?:file path=|folder path=|command-output command=|plan-mode>)")
PLAN_NOTE = (
    "<plan-mode>Only reading tools run now. Answer with a plan of what to change and how to check it; it is carried "
    "out when it is approved.</plan-mode>"
)
"""Added to a question in plan mode."""


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A file or folder that a question names by an @."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class QuestionMessage:
    """A question as a message, with notes about attached and missing files."""

    message: Message
    taken: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def question_message(
    line: str, project: Path, outputs: Sequence[str] = (), max_chars: int = DEFAULT_FILE_CHARS
) -> QuestionMessage:
    """The question with the files of its @names and with `outputs` (made by `command_output_block`).

    A text file is attached up to `max_chars`, a folder as a list of names, a picture as a picture. A name without a
    file stays in the text, with a notice.
    """
    found, missing = named_paths(line, project)
    blocks: list[str] = []
    pictures: list[Part] = []
    taken: list[str] = []
    notices = [f"there is no file {name} in {project.name or project}; the name alone is sent" for name in missing]
    for named in found:
        try:
            if named.path.is_dir():
                block, note = _folder_block(named)
            elif named.path.suffix.lower() in _IMAGE_TYPES:
                pictures.append(_image_part(named))
                block, note = "", f"{named.name}: attached as a picture"
            else:
                block, note = _file_block(named, max_chars)
        except OSError as error:
            problem = f"{named.name} cannot be read: {error.strerror}"
            raise InvalidArgument(problem, remedy="name another file") from error
        blocks += [block] if block else []
        taken.append(note)
    text = "\n\n".join([line, *blocks, *outputs])
    content: str | list[Part] = [{"type": "text", "text": text}, *pictures] if pictures else text
    return QuestionMessage({"role": "user", "content": content}, tuple(taken), tuple(notices))


def typed_line(message: Message) -> str:
    """The typed text of a message, without attachments."""
    text = text_of(message)
    attached = _ATTACHED.search(text)
    return text[: attached.start()] if attached else text


def command_output_block(command: str, output: str) -> str:
    """The output of a command that the user ran, as an attachment."""
    return f"<command-output command={quoteattr(command)}>\n{output.rstrip()}\n</command-output>"


def named_paths(line: str, project: Path) -> tuple[list[NamedPath], list[str]]:
    """The files of the @names in a line, each once, and names that look like a path without a file."""
    found: dict[Path, NamedPath] = {}
    missing: list[str] = []
    is_one_line = "\n" not in line.strip()
    for match in _NAMED.finditer(line):
        name = match[1] or match[2]
        existing = next((each for each in _spellings(name) if _exists(project, each)), None)
        if existing is not None:
            path = project / Path(existing).expanduser()
            found.setdefault(path.resolve(), NamedPath(existing, path))
            continue
        begins_line = match.start() == 0 or line[match.start() - 1] == "\n"
        # A decorator at the start of a line of pasted code is not a file.
        if match[1] or (_LOOKS_LIKE_A_PATH.fullmatch(_spellings(name)[-1]) and (is_one_line or not begins_line)):
            missing.append(_spellings(name)[-1])
    return list(found.values()), list(dict.fromkeys(missing))


def _spellings(name: str) -> list[str]:
    """A name as typed, and without trailing punctuation."""
    bare = name.rstrip(".,;:!?)]}'\"")
    return [name, bare] if bare and bare != name else [name]


def _exists(project: Path, name: str) -> bool:
    try:
        return (project / Path(name).expanduser()).exists()
    except (OSError, RuntimeError, ValueError):
        return False  # too long for a name, an unknown home, a NUL


def _file_block(named: NamedPath, max_chars: int) -> tuple[str, str]:
    content = _read(named, MAX_FILE_BYTES, "ask the model to read_file it")
    text = None if is_binary(content[:8192]) else decode_file(content)
    if text is None:
        raise InvalidArgument(
            f"{named.name} is {binary_kind(content[:8192])}, no text", remedy="name a text file or a picture"
        )
    shown, lines = text.text, count_lines(text.text)
    note = f"{named.name}: attached, {plural(lines, 'line')}"
    if len(shown) > max_chars:
        shown = shown[: shown.rfind("\n", 0, max_chars) + 1 or max_chars]
        kept = shown.count("\n")
        shown += f"[the first {kept:,} of {lines:,} lines; read_file with offset={kept + 1} shows more]"
        note = f"{named.name}: the first {kept:,} of {lines:,} lines are attached"
    return f"<file path={quoteattr(named.name)}>\n{shown.rstrip()}\n</file>", note


def _folder_block(named: NamedPath) -> tuple[str, str]:
    names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in named.path.iterdir())
    listed = names[:MAX_LISTED]
    if len(names) > MAX_LISTED:
        listed.append(f"[{len(names) - MAX_LISTED:,} more]")
    block = "\n".join([f"<folder path={quoteattr(named.name)}>", *listed, "</folder>"])
    return block, f"{named.name}: its {plural(len(names), 'name')} attached"


def _image_part(named: NamedPath) -> Part:
    encoded = base64.b64encode(_read(named, MAX_IMAGE_BYTES, "make the picture smaller")).decode()
    kind = _IMAGE_TYPES[named.path.suffix.lower()]
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{encoded}"}}


def _read(named: NamedPath, max_bytes: int, remedy: str) -> bytes:
    if named.path.stat().st_size > max_bytes:
        raise InvalidArgument(f"{named.name} has more than {max_bytes:,} bytes", remedy=remedy)
    return named.path.read_bytes()
