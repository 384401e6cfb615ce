"""`clew export` and `clew sessions export`: what goes out can be read again."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew.importers import read_transcript
from clew.messages import read_conversation
from clew.store import NewMessage, NewSession, Store
from clew.testing import assistant, call, tool, user

if TYPE_CHECKING:
    from tests.cli.conftest import Kept


def test_the_whole_history_goes_out_as_a_chat_request(kept: Kept) -> None:
    code, out, err = kept.run("export", "clock-2")
    assert (code, err) == (0, "")
    wire = json.loads(out)
    assert wire["model"] == "m-1"
    assert wire["messages"][0] == {"role": "system", "content": "Mend."}
    assert len(wire["messages"]) == 7
    assert wire["messages"][2]["tool_calls"][0]["function"]["name"] == "read_file"
    assert kept.run("sessions", "export", "clock-2")[1] == out


def test_the_view_goes_out_as_the_model_sees_it(kept: Kept) -> None:
    said = [each["content"] for each in json.loads(kept.run("export", "clock-2", "--view")[1])["messages"]]
    assert len(said) == 6
    assert said[2].startswith("Handoff")


@pytest.mark.parametrize("shape", ["chat", "jsonl", "anthropic", "responses", "openai_chat"])
@pytest.mark.parametrize("more", [[], ["--view"]])
def test_every_shape_is_read_again(kept: Kept, tmp_path: Path, shape: str, more: list[str]) -> None:
    file = tmp_path / "out"
    code, out, err = kept.run("export", "clock-2", "--as", shape, "--output", str(file), *more)
    assert (code, out) == (0, "")
    assert str(file) in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    read = read_transcript(str(file))
    assert [message["role"] for message in read.messages][:2] == ["system", "user"]
    # Anthropic wants turns to alternate, so that the first message and the handoff are one there.
    assert len(read.messages) == (7 if not more else 5 if shape == "anthropic" else 6)


def test_what_came_in_a_dialect_leaves_in_it_as_it_came(empty_home: Kept) -> None:
    items: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "Why?", "x_unknown": 1}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "So."}],
        },
    ]
    read = read_conversation(items, dialect="anthropic")

    async def take_in(store: Store) -> None:
        await store.start_session(NewSession(id="a", system="Be kind."))
        news = [NewMessage(it.message, dialect="anthropic", items=it.raw, part=0) for it in read.items]
        await store.append("a", news)

    empty_home.ask(take_in)
    wire = json.loads(empty_home.run("export", "a", "--as", "anthropic")[1])
    assert wire["messages"] == items
    assert "Be kind." in json.dumps(wire["system"])


def test_a_long_history_goes_out_line_by_line(empty_home: Kept) -> None:
    async def many(store: Store) -> None:
        await store.start_session(NewSession(id="long"))
        await store.append("long", [user(f"line {number}") for number in range(1_203)])

    empty_home.ask(many)
    lines = empty_home.run("export", "long", "--as", "jsonl")[1].splitlines()
    assert [json.loads(line)["content"] for line in lines] == [f"line {number}" for number in range(1_203)]


def test_a_call_without_a_result_still_goes_out(empty_home: Kept) -> None:
    async def broken(store: Store) -> None:
        await store.start_session(NewSession(id="b"))
        calls = [call("read_file", "{not json", id="c1")]
        await store.append("b", [user("Go \ud83d"), assistant(None, calls), tool("nobody", "lost"), user("Well?")])

    empty_home.ask(broken)
    for shape in ("chat", "jsonl", "anthropic", "responses"):
        assert empty_home.run("export", "b", "--as", shape)[0] == 0


def test_a_place_that_cannot_be_written_is_named(kept: Kept, tmp_path: Path) -> None:
    code, _, err = kept.run("export", "clock-2", "--output", str(tmp_path / "none" / "x.json"))
    assert code == 1
    assert "cannot be written" in err
    assert kept.run("export", "clock-2", "--output", str(tmp_path))[0] == 2
    assert kept.run("export", "clock-2", "--as", "xml")[0] == 2


def test_a_stream_without_those_characters_gets_escapes(kept: Kept) -> None:
    environ = {**os.environ, "CLEW_HOME": str(kept.home), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "clew", "export", "clock-2", "--as", "jsonl"], capture_output=True, env=environ
    )
    assert (done.returncode, done.stderr) == (0, b"")
    said = [json.loads(line)["content"] for line in done.stdout.decode("ascii").splitlines()]
    assert "Oil it, please. 时钟慢了。" in said


def _keep_a_secret(kept: Kept) -> None:
    async def fill(store: Store) -> None:
        await store.start_session(NewSession(id="s_5ec7e7"))
        said = [
            user("the root password is Tr0ub4dor-fake-3"),
            assistant(None, [call("terminal", {"command": "mysql -u root -pFakeRoot99 shop"}, id="c1")]),
            tool("c1", "machine h login bob password FakeNet11"),
        ]
        await store.append("s_5ec7e7", said)

    kept.ask(fill)


@pytest.mark.parametrize("shape", ["chat", "jsonl", "anthropic", "responses"])
@pytest.mark.parametrize("more", [[], ["--view"]])
def test_redact_takes_the_secrets_out_of_every_shape(empty_home: Kept, shape: str, more: list[str]) -> None:
    _keep_a_secret(empty_home)
    secrets = ("Tr0ub4dor-fake-3", "FakeRoot99", "FakeNet11")
    plain = empty_home.run("export", "5ec7", "--as", shape, *more)[1]
    assert all(secret in plain for secret in secrets)
    code, out, _ = empty_home.run("export", "5ec7", "--as", shape, "--redact", *more)
    assert code == 0
    assert not any(secret in out for secret in secrets)
    assert out.count("[REDACTED:") == 3


def test_a_file_that_others_could_read_is_the_owners_alone_afterwards(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text("old", encoding="utf-8")
    file.chmod(0o644)
    assert kept.run("export", "clock-2", "--output", str(file))[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
