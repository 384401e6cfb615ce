"""`clew context` on files as people have them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli import main
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user
from tests.support.history import synthetic_history

TOOLS = [
    {"type": "function", "function": {"name": "read_file", "description": "Read", "parameters": {"type": "object"}}}
]


def history() -> list[Message]:
    return [
        system("You mend clocks."),
        user("Why does the clock in hall 3 run late?"),
        assistant("I look at its log.", [call("read_file", {"path": "hall3.log"})]),
        tool("call_1", "tick 1 late\n" * 400),
        assistant("A dry bearing: tick 400 is 3 s late."),
    ]


def saved(folder: Path, content: Any) -> str:
    path = folder / "session.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    code = main(["context", *words], {"CLEW_HOME": str(home / "home"), **environ})
    out, err = capsys.readouterr()
    return code, out, err


def reported(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> Any:
    code, out, _ = run(capsys, home, *words, "--json", **environ)
    assert code == 0
    return json.loads(out)


def test_the_total_is_what_count_tokens_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"model": "gpt-5", "messages": history(), "tools": TOOLS}
    report = reported(capsys, tmp_path, saved(tmp_path, request))
    assert report["tokens"] == clew.count_tokens(history(), tools=TOOLS, model="gpt-5")
    assert report["exact"] is True
    assert report["model"] == "gpt-5"
    assert [share["kind"] for share in report["shares"]] == ["system", "tools", "user", "assistant", "tool results"]
    assert report["framing"] + sum(share["tokens"] for share in report["shares"]) == report["tokens"]
    assert report["window"]["free"] == report["window"]["tokens"] - report["tokens"]


def test_the_largest_message_is_named_with_its_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(capsys, tmp_path, saved(tmp_path, history()), "--top", "1")
    (largest,) = report["largest"]
    assert (largest["index"], largest["role"], largest["tool"]) == (3, "tool", "read_file")
    assert largest["begins"].startswith("tick 1 late")


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_the_picture_fits_the_terminal_and_has_every_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], width: str
) -> None:
    file = saved(tmp_path, {"messages": history(), "tools": TOOLS})
    code, out, err = run(capsys, tmp_path, file, "--model", "gpt-5", "--window", "8000", COLUMNS=width)
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= int(width)
    for words in ("system", "tools", "user", "assistant", "tool results", "free", "largest messages", "cost", "window"):
        assert words in out
    assert re.search(r"[\d,]+ of 8,000 tokens, \d+%", out)
    assert "compaction begins at 4,000" in out
    assert "8,000, from --window" in out
    assert "\x1b" not in out


def test_a_conversation_that_does_not_fit_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tmp_path, saved(tmp_path, history()), "--window", "1000")
    assert code == 0
    assert "the window ends here" in out
    assert "too much" in out


def test_no_compaction_is_marked_where_it_is_switched_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path, history())
    out = run(capsys, tmp_path, file, "--set", "compression.enabled=false")[1]
    assert "compaction begins" not in out
    report = reported(capsys, tmp_path, file, "--window", "10000", CLEW_COMPRESSION_THRESHOLD="0.7")
    assert report["threshold_tokens"] == 7000


@pytest.mark.parametrize(("written", "tokens"), [("8000", 8_000), ("8,000", 8_000), ("8k", 8_000), ("1.5K", 1_500)])
def test_a_window_may_be_written_as_compress_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str, tokens: int
) -> None:
    file = saved(tmp_path, history())
    assert reported(capsys, tmp_path, file, "--window", written)["window"]["tokens"] == tokens


def test_the_window_of_the_config_counts_for_the_model_of_the_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, {"model": "gpt-5", "messages": history()})
    environ = {"CLEW_MODEL_CONTEXT_LENGTH": "5000"}
    assert reported(capsys, tmp_path, file, **environ)["window"]["tokens"] == 5000
    assert reported(capsys, tmp_path, file, **environ, CLEW_MODEL_NAME="gpt-5")["window"]["tokens"] == 5000
    other = reported(capsys, tmp_path, file, **environ, CLEW_MODEL_NAME="small-one")
    assert other["window"]["tokens"] > 5000


def test_an_unknown_price_is_unknown_and_a_known_one_is_cheaper_cached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, history())
    assert reported(capsys, tmp_path, file, "--model", "nobodys-model-1")["cost_usd"] is None
    assert "unknown" in run(capsys, tmp_path, file, "--model", "nobodys-model-1")[1]
    cost = reported(capsys, tmp_path, file, "--model", "claude-sonnet-4-5")["cost_usd"]
    assert 0 < cost["cached"] < cost["uncached"]


def test_repairs_that_the_history_would_need_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = [*history(), assistant(None, [call("read_file", id="c9")]), user("Well?")]
    report = reported(capsys, tmp_path, saved(tmp_path, broken))
    assert any("c9" in repair and repair.startswith("message 5: ") for repair in report["repairs"])
    out = run(capsys, tmp_path, saved(tmp_path, broken))[1]
    assert "1 needed" in out
    assert "1 x the call has no result: a stub says so (message 5)" in out


def test_foreign_escape_codes_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = [user("\x1b[2J\x1b]0;gone\x07" + "修复 " * 50 + "\ud83d"), tool("\x1b[31m", "\x9b31m")]
    code, out, _ = run(capsys, tmp_path, saved(tmp_path, {"model": "\x1b[1mx", "messages": hostile}))
    assert code == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)


def test_a_file_that_is_not_there_is_a_failure_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, tmp_path, str(tmp_path / "none.json"))
    assert (code, out) == (1, "")
    assert err.startswith("clew: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["--window", "many"], ["--window", "0"], ["--top", "-1"], []])
def test_wrong_use_is_told_from_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    file = [saved(tmp_path, history())] if words else []
    assert run(capsys, tmp_path, *file, *words)[0] == 2


def test_a_broken_config_stops_it_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, tmp_path, "none.json", CLEW_COMPRESSION_THRESHOLD="much")
    assert code == 1
    assert "compression.threshold = 'much': not allowed" in err


def test_jsonl_and_anthropic_requests_are_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "session.jsonl"
    lines.write_text("\n".join(json.dumps(message) for message in history()))
    assert reported(capsys, tmp_path, str(lines))["messages"] == 5
    request = {
        "model": "claude-sonnet-4-5",
        "system": "You mend clocks.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Why is it late?"}]}],
    }
    report = reported(capsys, tmp_path, saved(tmp_path, request))
    assert [share["kind"] for share in report["shares"]] == ["system", "user"]
    assert report["exact"] is False


def test_what_the_provider_reported_is_shown_beside_our_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = {"input_tokens": 9_000, "cache_read_input_tokens": 500, "output_tokens": 5}
    common = {"sessionId": "s", "cwd": "/tmp", "version": "2.0", "isSidechain": False}
    asked = {"type": "user", "uuid": "a", "parentUuid": None, "message": {"role": "user", "content": "Why?"}}
    said = {"role": "assistant", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "So."}]}
    answered = {"type": "assistant", "uuid": "b", "parentUuid": "a", "message": {**said, "usage": usage}}
    file = tmp_path / "claude.jsonl"
    file.write_text("\n".join(json.dumps({**common, **line}) for line in (asked, answered)))
    report = reported(capsys, tmp_path, str(file))
    assert report["kind"] == "claude_code"
    assert (report["reported"]["prompt_tokens"], report["reported"]["index"]) == (9_500, 1)
    assert "9,500 by the provider" in run(capsys, tmp_path, str(file))[1]


def test_a_long_history_is_sampled_and_says_that_it_is_an_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = reported(capsys, tmp_path, saved(tmp_path, synthetic_history(1_200)), "--model", "gpt-5")
    assert report["exact"] is False
    assert "sample" in report["counted"]


def test_an_empty_list_is_an_empty_window_or_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, tmp_path, saved(tmp_path, []))
    assert code in (0, 1)
    assert (out if code == 0 else err).strip()
