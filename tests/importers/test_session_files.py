"""Session files of other programs, each in its own shape, made by hand here and read from real files where present."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from clew.errors import UnreadableTranscript
from clew.importers import Transcript, open_session, read_transcript
from clew.messages import calls_of, repair, text_of

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "session_files"


def as_jsonl(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def roles(found: Transcript) -> list[str]:
    return [message["role"] for message in found.messages]


class ClaudeCode:
    """Writes lines as Claude Code does; each hangs on the one before, unless told otherwise."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._ids = count(1)
        self._last: str | None = None

    def line(self, kind: str, *, parent: str | None = "", **fields: Any) -> str:
        key = f"u{next(self._ids)}"
        hung = self._last if parent == "" else parent
        self.lines.append({"type": kind, "uuid": key, "parentUuid": hung, "sessionId": "s1", "cwd": "/p", **fields})
        if not fields.get("isSidechain"):
            self._last = key
        return key

    def user(self, content: Any, **fields: Any) -> str:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def result(self, call_id: str, text: str, **fields: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call_id, "content": text}], **fields)

    def assistant(self, message_id: str, block: dict[str, Any], **fields: Any) -> str:
        usage = {"input_tokens": 5, "output_tokens": 7}
        message = {"role": "assistant", "id": message_id, "model": "claude-x", "content": [block], "usage": usage}
        return self.line("assistant", message=message, **fields)

    def read(self) -> Transcript:
        return read_transcript(as_jsonl(self.lines), name="claude.jsonl")


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(call_id: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": args}


def test_one_claude_code_reply_over_several_lines_is_one_message() -> None:
    log = ClaudeCode()
    log.user("Look at both files.")
    thinking = {"type": "thinking", "thinking": "Two reads.", "signature": "sig=="}
    log.assistant("m1", thinking)
    log.assistant("m1", text("Reading both."))
    first = log.assistant("m1", use("t1", path="a"))
    log.result("t1", "A", parent=first)
    second = log.assistant("m1", use("t2", path="b"), parent=first)
    log.result("t2", "B", parent=second)
    log.assistant("m2", text("They agree."))
    found = log.read()
    assert found.kind == "claude_code"
    assert found.model == "claude-x"
    assert roles(found) == ["user", "assistant", "tool", "tool", "assistant"]
    reply = found.messages[1]
    assert reply["reasoning"] == [thinking]
    assert [call["id"] for call in calls_of(reply)] == ["t1", "t2"]
    assert json.loads(calls_of(reply)[1]["function"]["arguments"]) == {"path": "b"}
    assert [index for index, _ in found.usage] == [1, 4]
    assert not repair(found.messages).repairs


def test_a_branch_that_the_user_left_is_left_out_and_counted() -> None:
    log = ClaudeCode()
    asked = log.user("Plan it.")
    plan = log.assistant("m1", text("Plan A."), parent=asked)
    log.user("Do A.", parent=plan)
    log.assistant("m2", text("Doing A."))
    log.user("Rather B.", parent=plan)
    log.assistant("m3", text("Doing B."))
    found = log.read()
    assert [text_of(message) for message in found.messages] == ["Plan it.", "Plan A.", "Rather B.", "Doing B."]
    assert found.notices == ("2 messages on branches that were abandoned are left out",)


def test_a_first_prompt_that_was_asked_anew_leaves_the_old_one_behind() -> None:
    log = ClaudeCode()
    log.user("Frist try.", parent=None)
    log.user("First try.", parent=None)
    assert [text_of(message) for message in log.read().messages] == ["First try."]


def test_what_stands_before_a_compaction_is_kept_with_the_summary() -> None:
    log = ClaudeCode()
    log.user("Start.")
    last = log.assistant("m1", text("Started."))
    log.line("system", parent=None, subtype="compact_boundary", logicalParentUuid=last)
    log.user("Summary so far.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    log.assistant("m2", text("Going on."))
    found = log.read()
    assert [text_of(message) for message in found.messages] == ["Start.", "Started.", "Summary so far.", "Going on."]
    with open_session(as_jsonl(log.lines)) as session:
        assert [entry.is_summary for entry in session.entries()] == [False, False, True, False]


def test_subagents_in_the_file_are_left_out_unless_they_are_all_there_is() -> None:
    log = ClaudeCode()
    log.user("Ask a helper.")
    side = log.user("You are a helper.", isSidechain=True, parent=None)
    log.assistant("s1", text("Helped."), isSidechain=True, parent=side)
    log.assistant("m1", text("Done."))
    found = log.read()
    assert [text_of(message) for message in found.messages] == ["Ask a helper.", "Done."]
    assert found.notices == ("messages of subagents are left out (lines 2, 3)",)
    alone = read_transcript(as_jsonl([line for line in log.lines if line.get("isSidechain")]))
    assert [text_of(message) for message in alone.messages] == ["You are a helper.", "Helped."]


def test_meta_lines_stay_and_what_the_model_never_saw_goes() -> None:
    log = ClaudeCode()
    log.lines.append({"type": "summary", "summary": "A title", "leafUuid": "u1"})
    log.lines.append({"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}})
    log.user("Caveat: commands follow.", isMeta=True)
    log.line("progress", data={})
    log.line("attachment", attachment={"type": "queued_command", "prompt": "And hurry."})
    log.assistant("m1", text("API Error: 529"), isApiErrorMessage=True)
    found = log.read()
    assert [text_of(message) for message in found.messages] == ["Caveat: commands follow.", "And hurry."]


def test_a_broken_line_and_a_missing_parent_cost_one_line_each() -> None:
    log = ClaudeCode()
    log.user("One.")
    log.assistant("m1", text("Two."))
    log.user("Three.")
    log.assistant("m2", text("Four."))
    lines = as_jsonl(log.lines).splitlines()
    lines[1] = lines[1][:-30]
    found = read_transcript(b"\n".join(lines))
    assert [text_of(message) for message in found.messages] == ["One.", "Three.", "Four."]
    assert found.notices == ("broken lines were left out (line 2)",)


def test_a_session_file_with_more_bad_lines_than_good_is_refused() -> None:
    log = ClaudeCode()
    log.user("One.")
    with pytest.raises(UnreadableTranscript, match=r"2 of 3 lines are no JSON objects; line 2: "):
        read_transcript(as_jsonl(log.lines) + b"{broken\n{again\n")


def test_pictures_in_prompts_and_results_become_chat_parts() -> None:
    log = ClaudeCode()
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"}}
    log.user([text("See."), picture])
    log.assistant("m1", use("t1"))
    log.user([{"type": "tool_result", "tool_use_id": "t1", "content": [picture], "is_error": True}])
    found = log.read()
    part = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}}
    assert found.messages[0]["content"] == [{"type": "text", "text": "See."}, part]
    assert found.messages[2]["content"] == [part]
    assert found.messages[2]["is_error"] is True


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-02-03T04:05:06.000Z", "type": kind, "payload": payload}


def said(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex("response_item", type="message", role=role, content=[{"type": kind, "text": words}])


CODEX = [
    codex("session_meta", id="th-1", cwd="/p", base_instructions={"text": "You are a coding agent."}),
    said("developer", "Sandbox: read-only."),
    said("user", "<environment_context>cwd=/p</environment_context>"),
    said("user", "List and count."),
    codex("event_msg", type="user_message", message="List and count."),
    codex("turn_context", cwd="/p", model="gpt-5.2-codex"),
    codex("response_item", type="reasoning", id="r1", summary=[], encrypted_content="enc"),
    said("assistant", "Two commands."),
    codex("response_item", type="function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1"),
    codex("response_item", type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c2"),
    codex("event_msg", type="token_count", info={"last_token_usage": {"input_tokens": 9, "output_tokens": 2}}),
    codex("response_item", type="function_call_output", call_id="c1", output="a.py"),
    codex("response_item", type="custom_tool_call_output", call_id="c2", output={"content": "no", "success": False}),
    said("assistant", "One file."),
]


def test_codex_items_of_one_reply_become_one_message() -> None:
    found = read_transcript(as_jsonl(CODEX))
    assert (found.kind, found.model, found.dialect) == ("codex", "gpt-5.2-codex", "openai_chat")
    assert roles(found) == ["system", "developer", "user", "user", "assistant", "tool", "tool", "assistant"]
    reply = found.messages[4]
    assert text_of(reply) == "Two commands."
    assert reply["reasoning"][0]["encrypted_content"] == "enc"
    assert [call["function"] for call in calls_of(reply)] == [
        {"name": "shell", "arguments": '{"command":["ls"]}'},
        {"name": "apply_patch", "arguments": '{"input": "*** Begin Patch"}'},
    ]
    assert found.messages[6] == {"role": "tool", "tool_call_id": "c2", "content": "no", "is_error": True}
    assert found.usage == ((4, {"input_tokens": 9, "output_tokens": 2}),)
    assert not repair(found.messages).repairs


def test_codex_turns_that_were_rolled_back_are_left_out() -> None:
    lines = [*CODEX, said("user", "Delete it."), said("assistant", "Deleted.")]
    lines += [codex("event_msg", type="thread_rolled_back", num_turns=1), said("user", "Keep it.")]
    found = read_transcript(as_jsonl(lines))
    assert [text_of(message) for message in found.messages[-2:]] == ["One file.", "Keep it."]
    assert found.notices == ("1 stretches of turns that were rolled back are left out",)


def test_a_codex_compaction_keeps_what_was_before_it() -> None:
    found = read_transcript(as_jsonl([*CODEX, codex("compacted", message="So far: one file."), said("user", "Next.")]))
    assert [text_of(message) for message in found.messages[-3:]] == ["One file.", "So far: one file.", "Next."]
    assert any("compacted" in notice for notice in found.notices)


def test_codex_files_from_before_payloads_are_read() -> None:
    old = [{"id": "th-0", "timestamp": "2025-05-06T07:08:09Z", "instructions": "Be kind."}, {"record_type": "state"}]
    old += [line["payload"] for line in CODEX if line["type"] == "response_item"]
    found = read_transcript(as_jsonl(old))
    assert (found.kind, text_of(found.messages[0])) == ("codex", "Be kind.")
    assert len(found.messages) == 8


def test_a_codex_shell_call_and_a_picture_find_their_places() -> None:
    action = {"type": "exec", "command": ["ls"]}
    lines = [
        *CODEX[:1],
        codex("response_item", type="message", role="user", content=[{"type": "input_image", "image_url": "data:x"}]),
        codex("response_item", type="local_shell_call", call_id="c9", status="completed", action=action),
        codex("response_item", type="function_call_output", call_id="c9", output=[{"type": "input_text", "text": "a"}]),
    ]
    found = read_transcript(as_jsonl(lines))
    assert found.messages[1]["content"] == [{"type": "image_url", "image_url": {"url": "data:x"}}]
    assert json.loads(calls_of(found.messages[2])[0]["function"]["arguments"]) == action
    assert found.messages[3]["content"] == "a"


def opencode_tool(call_id: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": call_id, "tool": "bash", "state": {"input": {"command": "ls"}, **state}}


OPENCODE: dict[str, Any] = {
    "info": {"id": "ses_1", "title": "Listing", "directory": "/p", "time": {"created": 1}},
    "messages": [
        {
            "info": {"id": "msg_1", "role": "user", "time": {"created": 1}},
            "parts": [
                {"type": "text", "text": "List it."},
                {"type": "file", "mime": "image/png", "url": "data:image/png;base64,QQ==", "filename": "a.png"},
            ],
        },
        {
            "info": {"id": "msg_2", "role": "assistant", "modelID": "some-model", "time": {"created": 2}},
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "Both.", "metadata": {"anthropic": {"signature": "sig"}}},
                opencode_tool("c1", status="completed", output="a.py"),
                opencode_tool("c2", status="error", error="denied"),
                {"type": "step-finish", "tokens": {"input": 3, "output": 4, "cache": {"read": 0, "write": 0}}},
                {"type": "step-start"},
                {"type": "text", "text": "One file."},
                {"type": "step-finish", "tokens": {"input": 8, "output": 2}},
            ],
        },
        {"info": {"id": "msg_3", "role": "user"}, "parts": [{"type": "text", "text": "Undone."}]},
    ],
}


def test_opencode_steps_become_replies_with_their_results() -> None:
    found = read_transcript(json.dumps(OPENCODE, indent=2).encode())
    assert (found.kind, found.model) == ("opencode", "some-model")
    assert roles(found) == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert found.messages[1]["reasoning"] == [{"type": "thinking", "thinking": "Both.", "signature": "sig"}]
    assert [call["id"] for call in calls_of(found.messages[1])] == ["c1", "c2"]
    assert found.messages[3] == {"role": "tool", "tool_call_id": "c2", "content": "denied", "is_error": True}
    assert [index for index, _ in found.usage] == [1, 4]


def test_what_was_reverted_in_opencode_is_left_out() -> None:
    reverted = {**OPENCODE, "info": {**OPENCODE["info"], "revert": {"messageID": "msg_3"}}}
    found = read_transcript(json.dumps(reverted).encode())
    assert text_of(found.messages[-1]) == "One file."
    assert found.notices == ("1 messages that were reverted are left out",)


def test_an_opencode_storage_folder_is_read_from_its_session_file(tmp_path: Path) -> None:
    session = tmp_path / "session" / "project" / "ses_1.json"
    files = {session: OPENCODE["info"]}
    for message in OPENCODE["messages"]:
        info = message["info"]
        files[tmp_path / "message" / "ses_1" / f"{info['id']}.json"] = {"time": {"created": 9}, **info}
        for number, part in enumerate(message["parts"]):
            files[tmp_path / "part" / info["id"] / f"prt_{number}.json"] = part
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    assert read_transcript(session).messages == read_transcript(json.dumps(OPENCODE).encode()).messages


HERMES_ROWS = [
    {"id": 1, "session_id": "h1", "role": "user", "content": "Run it.", "timestamp": 1.5, "active": 1},
    {
        "id": 2,
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}],
        "reasoning": "It is safe.",
    },
    {"id": 3, "role": "tool", "tool_call_id": "c1", "tool_name": "terminal", "content": "ok"},
    {"id": 4, "role": "assistant", "content": "taken back", "active": 0},
]


def check_hermes(found: Transcript) -> None:
    assert (found.kind, found.model) == ("hermes", "hermes-4")
    assert roles(found)[-3:] == ["user", "assistant", "tool"]
    reply: dict[str, Any] = dict(found.messages[-2])
    assert reply["reasoning_content"] == "It is safe."
    assert found.messages[-1] == {"role": "tool", "tool_call_id": "c1", "name": "terminal", "content": "ok"}


def test_a_hermes_snapshot_brings_its_system_prompt_and_tools() -> None:
    tools = [{"type": "function", "function": {"name": "terminal"}}]
    snapshot = {
        "session_id": "h1",
        "model": "hermes-4",
        "session_start": "2026-01-01T00:00:00",
        "system_prompt": "You are Hermes.",
        "tools": tools,
        "messages": HERMES_ROWS,
    }
    found = read_transcript(json.dumps(snapshot, indent=2).encode())
    check_hermes(found)
    assert text_of(found.messages[0]) == "You are Hermes."
    assert list(found.tools) == tools


def test_of_a_hermes_export_the_newest_session_is_read() -> None:
    older = {"id": "h0", "model": "old", "model_config": None, "started_at": 10.0, "messages": HERMES_ROWS[:1]}
    newer = {**older, "id": "h1", "model": "hermes-4", "started_at": 20.0, "messages": HERMES_ROWS}
    found = read_transcript(as_jsonl([newer, older]))
    check_hermes(found)
    assert found.notices == ("the file holds 2 sessions; this is the newest, on line 1",)


def test_a_hermes_gateway_log_is_read_line_by_line() -> None:
    check_hermes(read_transcript(as_jsonl([{"role": "session_meta", "model": "hermes-4", "tools": []}, *HERMES_ROWS])))


def test_a_hermes_trajectory_gets_its_calls_back_from_the_text() -> None:
    turns = [
        {"from": "system", "value": "Tools follow."},
        {"from": "human", "value": "Run both."},
        {
            "from": "gpt",
            "value": "<think>\nTwo.\n</think>\nGo.\n"
            '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>\n'
            "<tool_call>\n{broken\n</tool_call>",
        },
        {
            "from": "tool",
            "value": '<tool_response>\n{"tool_call_id": "x", "name": "terminal", "content": {"exit": 0}}\n'
            "</tool_response>\n<tool_response>\nplain\n</tool_response>",
        },
        {"from": "gpt", "value": "<think>\n</think>\nDone."},
    ]
    found = read_transcript(as_jsonl([{"conversations": turns, "model": "hermes-4", "completed": True}]))
    assert roles(found) == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert text_of(found.messages[2]) == "Go."
    assert [call["function"]["arguments"] for call in calls_of(found.messages[2])] == ['{"command": "ls"}', "{broken"]
    assert [text_of(message) for message in found.messages[3:]] == ['{"exit": 0}', "plain", "Done."]


PI = [
    {"type": "session", "id": "p1", "cwd": "/p", "provider": "anthropic", "modelId": "claude-x"},
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "Read it."}]}},
    {
        "type": "message",
        "message": {
            "role": "assistant",
            "model": "claude-x",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "sig"},
                {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a"}},
            ],
            "usage": {"input": 3, "output": 4, "cacheRead": 0, "cacheWrite": 0},
        },
    },
    {
        "type": "message",
        "message": {
            "role": "toolResult",
            "toolCallId": "t1",
            "content": [{"type": "text", "text": "A"}],
            "isError": False,
        },
    },
    {"type": "message", "message": {"role": "assistant", "content": [], "stopReason": "aborted"}},
]


def test_a_pi_session_gives_calls_results_and_thinking() -> None:
    found = read_transcript(as_jsonl(PI))
    assert (found.kind, found.model) == ("pi", "claude-x")
    assert roles(found) == ["user", "assistant", "tool"]
    assert found.messages[1]["reasoning"] == [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}]
    assert found.usage[0][0] == 1


def test_a_pi_tree_is_followed_from_its_newest_leaf() -> None:
    def entry(key: str, parent: str | None, words: str) -> dict[str, Any]:
        message = {"role": "user", "content": words}
        return {"type": "message", "id": key, "parentId": parent, "message": message}

    summary = {"type": "compaction", "id": "d", "parentId": "a", "summary": "So far."}
    shell = {"role": "bashExecution", "command": "ls", "output": "a.py", "exitCode": 0}
    lines = [
        {"type": "session", "version": 3, "id": "p1", "cwd": "/p"},
        entry("a", None, "One."),
        entry("b", "a", "Left behind."),
        summary,
        entry("c", "d", "Two."),
        {"type": "message", "id": "e", "parentId": "c", "message": shell},
    ]
    found = read_transcript(as_jsonl(lines))
    assert [text_of(message) for message in found.messages[:3]] == ["One.", "So far.", "Two."]
    assert "Ran `ls` (exit 0)" in text_of(found.messages[3])


def test_a_session_with_no_messages_says_which_kind_it_looked_like() -> None:
    with pytest.raises(UnreadableTranscript, match="looks like a session of codex"):
        read_transcript(as_jsonl(CODEX[:1]))


@pytest.mark.skipif(not REAL.exists(), reason="real session files are not here")
@pytest.mark.parametrize(
    ("name", "kind", "messages", "notices"),
    [
        ("claude_code_subagent", "claude_code", 4, 0),
        ("claude_code_with_compaction", "claude_code", 277, 2),
        ("claude_code_with_subagents", "claude_code", 33, 1),
        ("pi_session", "pi", 900, 0),
    ],
)
def test_real_session_files_are_read_whole(name: str, kind: str, messages: int, notices: int) -> None:
    found = read_transcript(REAL / f"{name}.jsonl.gz")
    assert (found.kind, len(found.messages), len(found.notices)) == (kind, messages, notices)
    assert len(found.usage) == roles(found).count("assistant")
