"""Which engine serves: the one that the config names, and the built-in where that one cannot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from clew.app import EngineChoice, LoadedEngine, engine_setup
from clew.config import load_config
from clew.engines import ContextCompressor, EngineSetup, register_context_engine
from tests.support.engines import PlainEngine

ENGINE = """
from clew.engines import register_context_engine
from tests.support.engines import PlainEngine

class Mine(PlainEngine):
    name = {name!r}

def register():
    register_context_engine({name!r}, Mine, description="mine")
"""
ABSTRACT = """
from clew.engines import ContextEngine, register_context_engine

class Half(ContextEngine):
    name = "mine"

def register():
    register_context_engine("mine", lambda setup: Half())
"""


def write(home: Path, name: str, code: str) -> None:
    folder = home / "plugins" / "context_engine" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code)


def loaded(home: Path, engine: str | None = None) -> LoadedEngine:
    environ = _environ(home, engine)
    return EngineChoice(load_config(environ), environ).load(EngineSetup(context_length=50_000))


def _environ(home: Path, engine: str | None) -> Mapping[str, str]:
    named = {"CLEW_CONTEXT_ENGINE": engine} if engine else {}
    return {"CLEW_HOME": str(home), **named}


def test_without_a_word_in_the_config_the_compressor_serves(tmp_path: Path) -> None:
    served = loaded(tmp_path)
    assert isinstance(served.engine, ContextCompressor)
    assert served.engine.get_status().context_length == 50_000
    assert served.notices == ()


def test_a_plugin_is_never_chosen_by_being_there(tmp_path: Path) -> None:
    write(tmp_path, "mine", "raise SystemExit('I ran')")
    write(tmp_path, "compressor", "raise SystemExit('I ran, too')")
    served = loaded(tmp_path)
    assert isinstance(served.engine, ContextCompressor)
    assert served.notices == ()


def test_a_plugin_serves_when_the_config_names_it(tmp_path: Path) -> None:
    write(tmp_path, "mine", ENGINE.format(name="mine"))
    served = loaded(tmp_path, "mine")
    assert (served.engine.name, type(served.engine).__name__, served.notices) == ("mine", "Mine", ())


def test_a_plugin_with_the_name_of_a_built_in_serves_when_that_name_is_written_down(tmp_path: Path) -> None:
    write(tmp_path, "compressor", ENGINE.format(name="compressor"))
    assert isinstance(loaded(tmp_path).engine, ContextCompressor)
    assert type(loaded(tmp_path, "compressor").engine).__name__ == "Mine"


PROGRAM = """
import sys
from clew.app import EngineChoice
from clew.config import load_config
from clew.engines import EngineSetup, register_context_engine
from tests.support.engines import PlainEngine

register_context_engine("plain", PlainEngine)
for named in ({}, {"CLEW_CONTEXT_ENGINE": "plain"}):
    environ = {"CLEW_HOME": sys.argv[1], **named}
    print(EngineChoice(load_config(environ), environ).load(EngineSetup()).engine.name)
"""


def test_an_engine_that_the_program_registered_can_be_named(tmp_path: Path) -> None:
    # In a process of its own: what a program registers, it keeps.
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "compressor\nplain\n"


FOR_CONTRACT_1 = """
from clew.engines import ContextEngine, register_context_engine

class Mine(ContextEngine):
    name = 'mine'

    def __init__(self, setup):
        self.compactions = 0

    async def compress(self, messages, current_tokens=None, focus_topic=None, force=False):
        self.compactions += 1

def register():
    register_context_engine('mine', Mine, contract=1)
"""
REMEMBERS = """
    def __init__(self, setup):
        super().__init__(setup)

    memory = property(lambda self: {})
"""


@pytest.mark.parametrize(
    "code",
    [
        FOR_CONTRACT_1,
        FOR_CONTRACT_1.replace(", contract=1", ""),
        FOR_CONTRACT_1.replace(", contract=1", "").partition("    def __init__")[0]
        + REMEMBERS
        + FOR_CONTRACT_1.partition("self.compactions = 0\n")[2].replace(", contract=1", ""),
    ],
    ids=["that says so", "that does not say so", "with a memory"],
)
def test_an_engine_for_contract_1_is_told_what_to_change(tmp_path: Path, code: str) -> None:
    write(tmp_path, "mine", code)
    served = loaded(tmp_path, "mine")
    assert isinstance(served.engine, ContextCompressor)
    (notice,) = served.notices
    assert "written for version 1 of the contract, this Clew has version 2; update the plugin: " in notice
    for named in ("`memory` is now `state`", "`restore(state)`", "`Compaction(source, items, ...)`"):
        assert named in notice
    assert "docs/guides/plugins.md has a complete engine" in notice


MINE = ENGINE.format(name="mine")
BROKEN = {
    "abstract methods are missing": (ABSTRACT, "abstract"),
    "another type": (MINE.replace("Mine, ", "lambda setup: 3, "), "made int, which is no clew.engines.ContextEngine"),
    "another name": (MINE.replace("name = 'mine'", "name = 'yours'"), "it is called 'yours'"),
    "a factory that takes nothing": (MINE.replace("Mine, ", "lambda: Mine(), "), "TypeError"),
    "an error on import": (MINE + "raise ValueError('broken')", "line 10: ValueError: broken"),
    "an error when made": (MINE.replace("Mine, ", "lambda setup: 1 / 0, "), "line 9: ZeroDivisionError"),
    "a syntax error": ("def register(:", "line 1: SyntaxError"),
    "another contract": (MINE.replace("description", "contract=9, description"), "written for version 9"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_engine_is_told_and_the_built_in_serves(tmp_path: Path, case: str) -> None:
    code, problem = BROKEN[case]
    write(tmp_path, "mine", code)
    served = loaded(tmp_path, "mine")
    assert isinstance(served.engine, ContextCompressor)
    (notice,) = served.notices
    assert notice.startswith(f"context engine 'mine' (folder, {tmp_path / 'plugins' / 'context_engine' / 'mine'}): ")
    assert problem in notice
    assert notice.endswith("; the built-in 'compressor' serves instead")


def test_an_unknown_name_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    served = loaded(tmp_path, "compresor")
    assert isinstance(served.engine, ContextCompressor)
    assert served.notices[0].startswith("no context engine is called 'compresor'; did you mean compressor?")


def test_a_folder_of_plugins_that_cannot_be_read_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "context_engine").write_text("a file")
    served = loaded(tmp_path, "mine")
    assert isinstance(served.engine, ContextCompressor)
    assert "no context engine is called 'mine'" in served.notices[0]


def test_built_ins_can_be_others_for_a_program_that_says_so(tmp_path: Path) -> None:
    environ = _environ(tmp_path, "plain")
    choice = EngineChoice(load_config(environ), environ, lambda: register_context_engine("plain", PlainEngine))
    assert isinstance(choice.load(EngineSetup()).engine, PlainEngine)


def test_the_settings_of_the_config_reach_the_engine(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path), "CLEW_COMPRESSION_THRESHOLD": "0.25", "CLEW_MODEL_CONTEXT_LENGTH": "40000"}
    config = load_config(environ)
    engine = EngineChoice(config, environ).load(engine_setup(config.settings)).engine
    assert engine.get_status().threshold_tokens == 10_000
