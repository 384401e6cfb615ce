"""Whatever is inside its messages, a file is folded with a true account, left alone, or refused in one line."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.cli import main
from clew.testing import assistant, user
from tests.support.strategies import broken_histories

pytestmark = pytest.mark.slow

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
NAMES = st.sampled_from(["role", "content", "text", "tool_calls", "tool_call_id", "id", "function", "name", "input"])
KINDS = st.sampled_from(["text", "image_url", "tool_use", "reasoning", "x"])
ANYTHING = st.recursive(
    LEAVES | st.sampled_from(["text", "image_url", "tool_use", "reasoning", "</script>", "m1", "{{rows}}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES, inner, max_size=4)
        | st.fixed_dictionaries({"type": KINDS}, optional={"text": inner, "input": inner})
    ),
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "critic"])},
    optional=dict.fromkeys(("content", "tool_calls", "tool_call_id", "reasoning", "name"), ANYTHING),
)
# Enough around what is odd that there is something to fold.
BEFORE: list[Any] = [user("Count the ships. " + "wave " * 200), assistant("Counted. " + "wave " * 400)]
AFTER: list[Any] = [user("And the gulls?" + " wing" * 200), assistant("Gulls too. " * 60), user("How many in all?")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def run(folder: Path, content: Any, *words: str) -> tuple[int, str, str]:
    file = folder / "session.json"
    file.write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["compress", str(file), *words], {"CLEW_HOME": str(folder / "home")})
    return code, out.getvalue(), err.getvalue()


def check(folder: Path, content: list[Any]) -> None:
    code, out, err = run(folder, content, "--to", "700", "--json", "--report", str(folder / "page.html"))
    if code:
        assert (code, err) == (1, "")
        assert json.loads(out)["error"]["message"]
        return
    told = json.loads(out)
    assert told["tokens_after"] <= told["tokens_before"]
    assert told["changed"] == (told["tokens_after"] < told["tokens_before"])
    assert (folder / "page.html").read_bytes().count(b"</script>") == 2
    assert run(folder, content, "--to", "700", "--preview")[0] == 0
    assert run(folder, content, "--to", "700", "--output", str(folder / "short.json"))[0] == 0


@settings(deadline=None, max_examples=25)
@given(content=st.lists(MESSAGE, max_size=4))
@example(content=[{"role": "assistant", "tool_calls": {"type": "text"}}, {"role": "tool", "tool_call_id": []}])
def test_any_messages_are_folded_or_refused(folder: Path, content: list[Any]) -> None:
    check(folder, [*BEFORE, *content, *AFTER])


@settings(deadline=None, max_examples=25)
@given(content=broken_histories())
def test_broken_histories_are_folded(folder: Path, content: list[Any]) -> None:
    check(folder, [*BEFORE, *content, *AFTER])
