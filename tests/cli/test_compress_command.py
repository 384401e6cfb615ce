"""`clew compress` on files as people have them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli import main
from clew.handoff import Handoff
from clew.messages import Message, calls_of, repair
from clew.testing import assistant, call, system, tool, user

TOOLS = [{"type": "function", "function": {"name": "terminal", "description": "Run", "parameters": {"type": "object"}}}]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.json"


def long_history(rounds: int = 40) -> list[Message]:
    """A clockmaker's log: rounds of a call with a long result, and a request now and then."""
    messages = [system("You mend clocks."), user("Mend the clock in hall 3. Never touch the bell.")]
    for number in range(rounds):
        if number and number % 10 == 0:
            messages.append(user(f"And now look at wheel {number}."))
        ran = call("terminal", {"command": f"measure --wheel {number}"}, id=f"call_{number}")
        messages.append(assistant(f"I measure wheel {number}.", [ran]))
        messages.append(tool(f"call_{number}", f"wheel {number}: {1000 + number} ticks\n" + "tick ok\n" * 120))
    messages += [assistant("All wheels are measured."), user("Good. What was wheel 7?")]
    return messages


def saved(folder: Path, content: Any, name: str = "session.json") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    code = main(["compress", *words], {"CLEW_HOME": str(home / "home"), **environ})
    out, err = capsys.readouterr()
    return code, out, err


def told(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> Any:
    code, out, _ = run(capsys, home, *words, "--json", **environ)
    assert code == 0
    return json.loads(out)


def test_output_to_stdout_is_the_short_conversation_in_the_shape_it_came_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = long_history()
    code, out, err = run(capsys, tmp_path, saved(tmp_path, history), "--to", "3000", "--output", "-")
    short = json.loads(out)
    assert code == 0
    assert short[-1] == history[-1]
    assert short[0]["content"].startswith("You mend clocks.")
    assert repair(short).repairs == ()
    assert clew.count_tokens(short) <= 3_000 < clew.count_tokens(history)
    assert re.fullmatch(r"clew: [\d,]+ -> [\d,]+ tokens, \d+% less; \d+ of \d+ messages folded into one handoff\n", err)


def test_a_request_keeps_every_other_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"model": "gpt-5", "temperature": 0.25, "messages": long_history(), "tools": TOOLS, "x_own": {"a": [1]}}
    short = json.loads(run(capsys, tmp_path, saved(tmp_path, request), "--to", "3k", "--output", "-")[1])
    assert list(short) == list(request)
    assert {**short, "messages": None} == {**request, "messages": None}
    assert len(short["messages"]) < len(long_history())


def test_jsonl_gives_jsonl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(json.dumps(message) for message in long_history())
    out = run(capsys, tmp_path, saved(tmp_path, lines, "session.jsonl"), "--to", "3000", "--output", "-")[1]
    short = [json.loads(line) for line in out.splitlines()]
    assert short[-1] == long_history()[-1]
    assert 3 < len(short) < 40


def test_an_anthropic_request_stays_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Mend the clock."}]
    for number in range(30):
        block = {"type": "tool_use", "id": f"t{number}", "name": "measure", "input": {"wheel": number}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "tick ok\n" * 100}
        messages += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
    messages.append({"role": "assistant", "content": [{"type": "text", "text": "Measured."}]})
    messages.append({"role": "user", "content": [{"type": "text", "text": "And now?"}]})
    request = {"model": "claude-sonnet-4-5", "max_tokens": 99, "system": "You mend clocks.", "messages": messages}
    file = saved(tmp_path, request)
    short = json.loads(run(capsys, tmp_path, file, "--to", "3000", "--output", "-")[1])
    assert short["max_tokens"] == 99
    assert short["messages"][-1] == messages[-1]
    assert all(message["role"] in ("user", "assistant") for message in short["messages"])
    account = told(capsys, tmp_path, file, "--to", "3000")
    assert account["dialect"] == "anthropic"
    assert account["messages"] == short["messages"]
    assert account["system"] == short["system"]


def test_a_gemini_request_stays_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Mend the clock."}]}]
    for number in range(30):
        call = {"functionCall": {"name": "measure", "args": {"wheel": number}}, "thoughtSignature": "c2ln"}
        response = {"functionResponse": {"name": "measure", "response": {"output": "tick ok\n" * 100}}}
        contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]
    contents += [{"role": "model", "parts": [{"text": "Measured."}]}, {"role": "user", "parts": [{"text": "And now?"}]}]
    request = {"systemInstruction": {"parts": [{"text": "You mend clocks."}]}, "contents": contents, "x_own": 1.0}
    account = told(capsys, tmp_path, saved(tmp_path, request), "--to", "3000")
    assert account["dialect"] == "gemini"
    short = json.loads(run(capsys, tmp_path, saved(tmp_path, request), "--to", "3000", "--output", "-")[1])
    assert list(short) == list(request) and short["contents"][-1] == contents[-1]
    assert all(content["role"] in ("user", "model") for content in short["contents"])
    assert "call_without_id" not in json.dumps(short["contents"][2:])


def test_a_session_file_becomes_a_list_of_chat_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = {"sessionId": "s", "cwd": "/clocks", "version": "2.0", "isSidechain": False}
    records: list[dict[str, Any]] = []
    for number in range(60):
        role = "user" if number % 2 == 0 else "assistant"
        said = f"Number {number}. " + "The wheel turns and the hand follows it. " * 20
        message = {"role": role, "content": said if role == "user" else [{"type": "text", "text": said}]}
        parent = f"u{number - 1}" if number else None
        records.append({**common, "type": role, "uuid": f"u{number}", "parentUuid": parent, "message": message})
    file = saved(tmp_path, "\n".join(map(json.dumps, records)), "claude.jsonl")
    short = json.loads(run(capsys, tmp_path, file, "--to", "3000", "--output", "-")[1])
    assert isinstance(short, list)
    assert short[-1]["content"].startswith("Number 59.")
    assert told(capsys, tmp_path, file)["kind"] == "claude_code"


def test_json_has_the_result_and_the_whole_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = long_history()
    report = told(capsys, tmp_path, saved(tmp_path, history), "--to", "3000")
    assert report["changed"] is True
    assert report["written_by"] == "built-in"
    assert report["tokens_after"] <= 3_000 < report["tokens_before"]
    assert report["tokens_before"] == clew.count_tokens(history)
    assert len(report["fates"]) == len(history)
    assert set(report["fates"]) <= {"kept", "pruned", "summarised", "removed"}
    assert report["fates"][0] == report["fates"][-1] == "kept"
    assert "Never touch the bell." in report["summary"]
    assert report["warnings"] == []
    assert any(report["summary"][:200] in str(message["content"]) for message in report["messages"])
    assert Handoff.of_json(report["handoff"]).render() == report["summary"]


def test_the_handoff_can_be_printed_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path, long_history())
    code, out, err = run(capsys, tmp_path, file, "--to", "3000", "--handoff")
    assert (code, out) == (0, told(capsys, tmp_path, file, "--to", "3000")["summary"] + "\n")
    assert err.count("\n") == 1


def test_where_nothing_was_summarised_no_handoff_and_no_writer_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, [user("Mend these: " + "wheel 123, " * 5_000)])
    assert told(capsys, tmp_path, file, "--to", "3000")["handoff"] is None
    out = run(capsys, tmp_path, file, "--to", "3000")[1]
    assert "None" not in out
    assert "written by" not in out
    assert re.search(r"\bhandoff [\d,]+", out) is None, "no part of the request is a handoff"
    code, out, err = run(capsys, tmp_path, file, "--to", "3000", "--handoff")
    assert (code, out) == (0, "")
    assert err.strip()


def test_output_goes_to_a_file_and_the_report_to_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "short.json"
    code, out, err = run(capsys, tmp_path, saved(tmp_path, long_history()), "--to", "3000", "--output", str(target))
    assert (code, err) == (0, "")
    assert json.loads(target.read_text())[-1] == long_history()[-1]
    assert "where the messages are" in out
    assert str(target) in out
    conversation = run(capsys, tmp_path, saved(tmp_path, long_history()), "--to", "3000", "--output", "-")[1]
    assert conversation == target.read_text()


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_the_report_fits_the_terminal_and_says_what_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], width: str
) -> None:
    words = (str(EXAMPLE), "--output", str(tmp_path / "short.json"))
    code, out, _ = run(capsys, tmp_path, *words, COLUMNS=width)
    assert code == 0
    assert max(len(line) for line in out.replace(str(tmp_path / "short.json"), "").splitlines()) <= int(width)
    assert re.search(r"^  before  68,\d{3}  ", out, re.MULTILINE)
    assert re.search(r"\d\d% less$", out, re.MULTILINE)
    assert re.search(r"^  m1-m\d+ +\d+  folded +[\d,]+ → [\d,]+  in the", out, re.MULTILINE)
    for words_of_it in ("head", "tail", "the handoff", "Active task", "Completed actions", "cost", "tidepost replay"):
        assert words_of_it in out
    assert "\x1b" not in out
    # Lines of results that the handoff quotes are not among those shown of it, also where one begins as a heading does.
    assert re.search(r"^  Completed actions  [\d,]+ lines\n(?:    .*\n){2}  \w", out, re.MULTILINE)
    # One look: the whole of it fits on one screen of a large window.
    assert len(out.splitlines()) < 60


def test_without_a_size_it_is_folded_as_if_it_had_just_reached_the_threshold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, {"model": "gpt-5", "messages": long_history()})
    report = told(capsys, tmp_path, file)
    assert report["changed"] is True
    window = str(2 * report["tokens_before"])
    assert told(capsys, tmp_path, file, "--window", window)["tokens_after"] == report["tokens_after"]
    assert told(capsys, tmp_path, file, "--window", "1000000")["changed"] is False
    # The window of the model is the most: here the config says that it is small.
    small = told(capsys, tmp_path, file, CLEW_MODEL_CONTEXT_LENGTH="4000")
    assert small["tokens_after"] < report["tokens_after"]


def test_settings_of_the_config_decide_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path, long_history())
    usual = told(capsys, tmp_path, file, "--window", "16k")
    longer = told(capsys, tmp_path, file, "--window", "16k", "--set", "compression.target_ratio=0.6")
    assert longer["fates"].count("kept") > usual["fates"].count("kept")


def test_a_focus_topic_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told(capsys, tmp_path, saved(tmp_path, long_history()), "--to", "3000", "--focus", "wheel 7")
    assert report["tokens_after"] <= 3_000


def test_what_is_short_already_leaves_as_it_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"model": "gpt-5", "messages": long_history(3), "extra": None}
    file = saved(tmp_path, request)
    code, out, err = run(capsys, tmp_path, file, "--to", "20000", "--output", "-")
    assert (code, json.loads(out)) == (0, request)
    assert err.startswith("clew: nothing was changed")
    report = told(capsys, tmp_path, file, "--to", "20000")
    assert (report["changed"], report["summary"], set(report["fates"])) == (False, None, {"kept"})
    said = run(capsys, tmp_path, file, "--to", "20000", "--output", str(tmp_path / "same.json"))[1]
    assert "Nothing was changed." in said


def test_an_empty_list_is_nothing_to_fold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tmp_path, saved(tmp_path, []), "--output", "-")
    assert (code, out) == (0, "[]\n")
    assert run(capsys, tmp_path, saved(tmp_path, []), "--preview")[0] == 0
    assert run(capsys, tmp_path, saved(tmp_path, []), "--report", str(tmp_path / "r.html"))[0] == 0


def test_repairs_are_told_and_the_numbers_still_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = long_history()
    broken = [*history[:5], tool("never_called", "stray"), *history[5:-1], assistant(None), history[-1]]
    report = told(capsys, tmp_path, saved(tmp_path, broken), "--to", "3000")
    assert any("never_called" in each for each in report["repairs"])
    assert any(warning.startswith("The history was repaired: message 5") for warning in report["warnings"])
    assert repair(report["messages"]).repairs == ()
    err = run(capsys, tmp_path, saved(tmp_path, broken), "--to", "3000", "--output", "-")[2]
    assert "The history was repaired" in err


def test_a_folded_conversation_can_be_folded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = told(capsys, tmp_path, saved(tmp_path, long_history(80)), "--to", "6000")
    file = saved(tmp_path, once["messages"], "once.json")
    target = str(tmp_path / "page.html")
    twice = told(capsys, tmp_path, file, "--to", "2500", "--report", target)
    assert twice["tokens_after"] <= 2_500
    assert "Never touch the bell." in str(twice["messages"])
    assert len(twice["fates"]) == len(once["messages"])
    assert any("accura" in warning for warning in twice["warnings"])
    assert sum("[Clew handoff]" in str(message.get("content")) for message in twice["messages"]) >= 1


def test_every_call_keeps_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = told(capsys, tmp_path, str(EXAMPLE), "--to", "6000")["messages"]
    called = [each["id"] for message in messages for each in calls_of(message)]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert called == answered


def test_foreign_escape_codes_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = long_history()
    history[-1] = user("\x1b[2J\x1b]0;gone\x07 修复 \x9b31m and \ud83d")
    file = saved(tmp_path, {"model": "\x1b[1mx", "messages": history})
    target = str(tmp_path / "short.json")
    code, out, err = run(capsys, tmp_path, file, "--to", "3000", "--output", target)
    assert code == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out + err)
    out = run(capsys, tmp_path, file, "--to", "3000", "--preview")[1]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    assert run(capsys, tmp_path, file, "--to", "3000")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "3000", "--window", "8000"],
        ["--to", "many"],
        ["--to", "10"],
        ["--window", "1999"],
        ["--to", "1e999k"],
        ["--preview", "--report", "r.html"],
        ["--preview", "--output", "o.json"],
        ["--report", "-"],
        ["--handoff", "--output", "-"],
        ["--preview", "--handoff"],
        ["--output", "no/such/folder/o.json"],
        ["--report", "."],
        ["--unknown"],
    ],
)
def test_wrong_use_ends_with_2_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, out, err = run(capsys, tmp_path, str(tmp_path / "none.json"), *words)
    assert (code, out) == (2, "")
    assert err.strip()


def test_the_conversation_itself_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path, long_history())
    before = Path(file).read_bytes()
    for flag in ("--output", "--report"):
        code, _, err = run(capsys, tmp_path, file, "--to", "3000", flag, file)
        assert (code, err.count("\n")) == (2, 1)
        assert "would be lost" in err
    assert Path(file).read_bytes() == before


def test_two_results_cannot_share_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = str(tmp_path / "x")
    words = ("--to", "3000", "--output", same, "--report", same)
    assert run(capsys, tmp_path, saved(tmp_path, long_history()), *words)[0] == 2


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ("not json", "no JSON"),
        ('{"a": 1}', "without `messages`"),
        ("[1, 2]", "message 0"),
        ('{"messages": 3}', "not a list"),
    ],
)
def test_bad_input_fails_with_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, named: str
) -> None:
    file = str(tmp_path / "none.json") if content is None else saved(tmp_path, content)
    code, out, err = run(capsys, tmp_path, file, "--to", "3000")
    assert (code, out) == (1, "")
    assert err.startswith("clew: ")
    assert err.count("\n") == 1
    assert named in err


def test_a_target_that_the_tools_alone_exceed_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "name": f"tool_{n}"}} for n in range(80)]  # type: ignore[dict-item]
    file = saved(tmp_path, {"messages": long_history(), "tools": many})
    code, _, err = run(capsys, tmp_path, file, "--to", "500")
    assert (code, err.count("\n")) == (2, 1)


def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A device that is always full, where there is one.
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    code, _, err = run(capsys, tmp_path, saved(tmp_path, long_history()), "--to", "3000", "--output", "/dev/full")
    assert code == 1
    assert "/dev/full: cannot be written" in err


def test_a_broken_config_stops_it_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, tmp_path, "none.json", CLEW_COMPRESSION_THRESHOLD="much")
    assert code == 1
    assert "compression.threshold" in err
