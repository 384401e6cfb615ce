"""The models in files under the Clew home: which there are, which one is chosen, and which one a name means.

Looks at names and sizes, and opens no model. What runs one is next door.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clew.config import replace_file
from clew.errors import InvalidArgument
from clew.providers.local_table import FETCHABLE

LOCAL = "local"
"""The provider's name, and the name of whichever model is chosen."""
LOCAL_PREFIX = "local:"
SUFFIX = ".gguf"
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model file."""

    file: Path
    size_bytes: int

    @property
    def name(self) -> str:
        return self.file.name


def models_folder(home: Path) -> Path:
    """Where model files are kept."""
    return home / "models"


def local_models(home: Path) -> list[LocalModel]:
    """The model files there are, by name."""
    try:
        files = sorted(models_folder(home).iterdir(), key=lambda file: file.name.lower())
    except OSError:
        return []
    found = (file for file in files if file.suffix.lower() == SUFFIX and not file.name.startswith("."))
    return [LocalModel(file, file.stat().st_size) for file in found if file.is_file()]


def choose_local_model(name: str, home: Path) -> None:
    """Let `local` mean this file from now on."""
    replace_file(models_folder(home) / _CHOSEN, f"{name}\n")


def chosen_local_model(home: Path) -> str | None:
    """The name that was chosen, as it was written; None where none was."""
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
        return _usual_file(home)
    path = Path(wanted).expanduser()
    if path.suffix.lower() == SUFFIX and path.is_file():
        return path.absolute()
    meant = _meant(wanted, local_models(home))
    if len(meant) == 1:
        return meant[0].file
    if meant:
        raise InvalidArgument(f"the name {wanted!r} fits {_listed(meant)}; give more of it")
    if path.name != wanted:
        raise InvalidArgument(f"there is no model file at {path}; give the path of a {SUFFIX} file")
    raise InvalidArgument(f"no local model is called {wanted!r}; {_remedy(wanted, home)}")


def _usual_file(home: Path) -> Path:
    chosen = chosen_local_model(home)
    there = local_models(home)
    if chosen is not None:
        path = Path(chosen).expanduser()
        kept = path if path.is_absolute() else models_folder(home) / path
        if kept.is_file():
            return kept
    if len(there) == 1:
        return there[0].file
    if there:
        raise InvalidArgument(f"`local` may be {_listed(there)}; choose one with `clew models use NAME`")
    raise InvalidArgument("there is no local model yet; `clew models get smollm2` fetches a small one")


def _meant(wanted: str, there: list[LocalModel]) -> list[LocalModel]:
    """The files that a name may mean: the exact one before those that begin so."""
    name = wanted.lower()
    row = next((row for row in FETCHABLE if row.name == name), None)
    exact = {name, f"{name}{SUFFIX}", *([row.file.lower()] if row else [])}
    named = [model for model in there if model.name.lower() in exact]
    return named or [model for model in there if model.name.lower().startswith(name)]


def _remedy(wanted: str, home: Path) -> str:
    there = local_models(home)
    if any(row.name == wanted.lower() for row in FETCHABLE):
        return f"`clew models get {wanted.lower()}` fetches it"
    if there:
        return f"there are {_listed(there)}"
    return f"there is none yet under {models_folder(home)}; `clew models get smollm2` fetches a small one"


def _listed(models: list[LocalModel]) -> str:
    return ", ".join(model.name for model in models)
