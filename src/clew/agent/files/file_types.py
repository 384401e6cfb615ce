"""What a file is: text and its encoding, a kind of binary file by its first bytes, or a secret by its name.

Text is encoded again as it was: encoding, byte order mark and line ends stay. What is neither UTF-8 nor marked as
UTF-16, and holds no NUL, is read as Latin-1, which gives the same bytes back.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from dataclasses import dataclass

from clew.errors import InvalidArgument
from clew.lazy import read_beside
from clew.tokens import image_size_in_header

SNIFFED_BYTES = 8_192
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
LATIN1_FALLBACK = "clew-latin-1"
"""An error handler for decoding: bytes that are no UTF-8 are read as Latin-1, and a lone surrogate as its escape."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text and its encoding."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Another text in this file's encoding. Raises InvalidArgument for a character that it does not have."""
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as problem:
            char = text[problem.start]
            raise InvalidArgument(f"{char!r} cannot be written as {self.encoding}; leave it out") from problem


def decode_file(content: bytes) -> TextFile | None:
    """The text of a file; None where it is binary."""
    bom, encoding = bom_of(content)
    body = content[len(bom) :]
    try:
        return TextFile(body.decode(encoding), encoding, bom)
    except UnicodeDecodeError:
        if bom or is_binary(content):
            return None
        return TextFile(content.decode("latin-1"), "latin-1")


def bom_of(start: bytes) -> tuple[bytes, str]:
    """The byte order mark and its encoding; UTF-8 where there is none."""
    return next(((bom, encoding) for bom, encoding in BOMS if start.startswith(bom)), (b"", "utf-8"))


def is_binary(start: bytes) -> bool:
    """Whether a file is binary, by its first bytes."""
    return b"\0" in start[:SNIFFED_BYTES] and not bom_of(start)[1].startswith("utf-16")


def dominant_line_ending(text: str) -> str:
    """The line ending that most lines have."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def count_lines(text: str) -> int:
    """Lines as an editor counts them: a line end at the very end starts no further line."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def _latin1_fallback(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    three = problem.object[problem.start : problem.start + 3]
    try:
        return f"\\u{ord(three.decode('utf-8', 'surrogatepass')):04x}", problem.start + 3
    except (UnicodeDecodeError, TypeError):
        return problem.object[problem.start : problem.end].decode("latin-1"), problem.end


codecs.register_error(LATIN1_FALLBACK, _latin1_fallback)


HEAD_BYTES = 65_536


def binary_kind(head: bytes) -> str:
    """The kind of a binary file, by its first bytes; with the size in pixels, where it is an image."""
    rows = ((offset, signature.encode("latin-1"), kind) for offset, signature, kind in TABLES["signatures"])
    kind = next((kind for offset, signature, kind in rows if head.startswith(signature, offset)), "binary file")
    size = image_size_in_header(head) if kind.endswith("image") else None
    return f"{kind}, {size[0]} x {size[1]} pixels" if size else kind


TABLES = tomllib.loads(read_beside(__file__, "files.toml").decode())
_NOT_SECRET = re.compile(TABLES["not_secret"], re.IGNORECASE)
_MAX_PATH_CHARS = 4_096
"""No system has a longer path; of a longer text the end is searched."""
_SECRET_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in TABLES["secret"])


def secret_kind(text: str) -> str | None:
    """The kind of secret that a file holds, by its path; None where it looks harmless.

    Wildcards at the end are ignored.
    """
    text = text[-_MAX_PATH_CHARS:]
    names = {text, text.rstrip("*?").rstrip("/"), text.rstrip("*?").rstrip(".")}
    if _NOT_SECRET.search(text):
        return None
    return next((kind for pattern, kind in _SECRET_PATTERNS if any(pattern.search(name) for name in names)), None)


_PUBLIC_FILES = re.compile(TABLES["public"])


def is_public_file(path: str) -> bool:
    """Whether a resolved path outside the project is one of the system, which may be read without a question.

    Commands and the tools for files ask for every other, wherever it is: no list of credentials is complete.
    """
    return _PUBLIC_FILES.fullmatch(path) is not None and secret_kind(path) is None


_RULE_FILES = tuple(
    (re.compile(f"(?:.*/)?(?:{names})"), files.split()) for names, files in TABLES["rule_files"].items()
)


def rule_files_of(program: str) -> list[str]:
    """Names of the files in which a program looks for commands by default, by its name or path."""
    return [file for names, files in _RULE_FILES if names.fullmatch(program) for file in files]


_LASTING_PATTERNS = tuple((re.compile(pattern), effect) for pattern, effect in TABLES["lasting"])
_PACKAGE_SCRIPT = re.compile(
    r"\"(?:(?:pre|post)?(?:install|pack|publish|version)|prepare|prepublishOnly|dependencies)\"\s*:\s*\""
)


def lasting_effect(path: str, text: str = "") -> str | None:
    """The lasting effect of a file: later sessions read it as instructions, or it runs by itself; None without one.

    `text` is what is to be written there: a package.json counts by the scripts in it that run by themselves.
    """
    if path.rpartition("/")[2] == "package.json" and _PACKAGE_SCRIPT.search(text):
        return "a script that runs at every install"
    end = path[-_MAX_PATH_CHARS:]
    return next((effect for pattern, effect in _LASTING_PATTERNS if pattern.search(end)), None)
