"""Other people's code, run so that what it raises becomes one error that names plugin, place and problem."""

from __future__ import annotations

import importlib
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.errors import PluginError
from clew.plugins.found import Plugin

_log = logging.getLogger("clew.plugins")
# The person is told in a notice; the traceback is for those who configured logging.
_log.addHandler(logging.NullHandler())
# A problem is never in the machinery that calls a plugin, although the traceback may end there.
_MACHINERY = (Path(__file__).resolve().parents[1], Path(importlib.__file__).resolve().parent)
_LONGEST_MESSAGE = 300


@contextmanager
def foreign_code(plugin: Plugin, doing: str) -> Iterator[None]:
    """Raises PluginError for whatever goes wrong inside, also for a plugin that wants to end the program."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, PluginError) and str(error).startswith(str(plugin)):
            raise  # it says all this already
        _log.warning("%s: %s failed", plugin, doing, exc_info=True)
        raise PluginError(f"{plugin}: {doing} failed: {_problem(error, plugin)}") from error


def _problem(error: BaseException, plugin: Plugin) -> str:
    said = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())[:_LONGEST_MESSAGE]
    what = said if isinstance(error, PluginError) else f"{type(error).__name__}: {said}".rstrip(": ")
    place = _place(error, plugin)
    return f"{place}: {what}" if place else what


def _place(error: BaseException, plugin: Plugin) -> str:
    """The file and line, in the plugin's own code where the traceback passes through it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if plugin.root and Path(frame.filename).is_relative_to(plugin.root)]
    theirs = own or [frame for frame in frames if not any(map(Path(frame.filename).is_relative_to, _MACHINERY))]
    return f"{theirs[-1].filename} line {theirs[-1].lineno}" if theirs else ""
