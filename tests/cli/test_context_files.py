"""`clew context` on files with anything in their messages, and on real session files where they are at hand."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.cli import main

FILES = sorted((Path(__file__).resolve().parents[3] / "shared" / "data" / "session_files").glob("*.jsonl.gz"))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
NAMES = st.sampled_from(
    ["role", "content", "type", "text", "tool_calls", "tool_call_id", "id", "function", "name", "input"]
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "text", "image_url", "tool_use", "reasoning", "function_call", "x"]
)
ANYTHING = st.recursive(
    LEAVES | WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "critic"])},
    optional=dict.fromkeys(("content", "tool_calls", "tool_call_id", "reasoning", "name", "type"), ANYTHING),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(deadline=None, max_examples=25)
@given(content=st.lists(MESSAGE, max_size=4), as_json=st.booleans())
def test_any_messages_are_shown_or_refused(folder: Path, content: Any, as_json: bool) -> None:
    file = folder / "session.json"
    file.write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["context", str(file), *(["--json"] if as_json else [])], {"CLEW_HOME": str(folder)})
    if code == 0:
        assert json.loads(out.getvalue())["tokens"] >= 0 if as_json else "of 128,000 tokens" in out.getvalue()
    else:
        assert code == 1
        assert out.getvalue() == ""
        assert err.getvalue().startswith("clew: ")


@pytest.mark.skipif(not FILES, reason="the recorded sessions are not part of the project")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_real_session_is_shown_with_the_figure_its_provider_reported(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["context", str(file), "--json"], {"CLEW_HOME": str(tmp_path)}) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == report["framing"] + sum(share["tokens"] for share in report["shares"])
    assert report["reported"]["prompt_tokens"] > 0
    assert report["cost_usd"]["uncached"] > 0
