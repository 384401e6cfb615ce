"""What is typed, as a title and as a message: pictures that are named with an @ go along.

Text files are left to the model, which reads what it needs of them.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from clew.errors import InvalidArgument
from clew.messages import Message, Part

TITLE_CHARS = 60
MOST_IMAGE_BYTES = 10 * 1024 * 1024
_IMAGES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}
_NAMED = re.compile(r"(?<!\S)@(\S+\.(?:png|jpe?g|gif|webp))(?!\S)", re.IGNORECASE)


def title_of(line: str) -> str:
    """The first words of a question."""
    words = " ".join("".join(char if char.isprintable() else " " for char in line).split())
    if len(words) <= TITLE_CHARS:
        return words or "untitled"
    cut = words[:TITLE_CHARS].rsplit(" ", 1)[0]
    return f"{cut}…"


def message_of(line: str, project: Path) -> Message:
    """The question, with the pictures that it names."""
    found = [project / Path(name).expanduser() for name in _NAMED.findall(line)]
    pictures = [_picture(path) for path in found if path.is_file()]
    if not pictures:
        return {"role": "user", "content": line}
    return {"role": "user", "content": [{"type": "text", "text": line}, *pictures]}


def _picture(path: Path) -> Part:
    try:
        if path.stat().st_size > MOST_IMAGE_BYTES:
            raise InvalidArgument(f"{path} has more than {MOST_IMAGE_BYTES:,} bytes; make the picture smaller")
        encoded = base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}; name another picture") from error
    kind = _IMAGES[path.suffix.lower()]
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{encoded}"}}
