"""LiteLLM: its real proxy with the hook, before a mock upstream; the client is OpenAI's or Anthropic's SDK."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from openai import OpenAI

from clew.integrations.litellm import ClewHook
from tests.integrations.scenario import (
    KEY,
    SYSTEM,
    TASK,
    WINDOW,
    assert_it_goes_on,
    assert_it_went_well,
    assert_the_example_runs,
    part,
    requests_of,
    running,
)

TOOL = {
    "name": "read_part",
    "description": "Read a part of the project.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
}
ALONE = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
HOOK = "from clew.integrations.litellm import ClewHook\nhook = ClewHook(context_length={window}, store={store!r})\n"


@contextmanager
def proxy_before(upstream: Any, folder: Path) -> Iterator[str]:
    """The proxy as a process of its own, with the hook; its base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "clew_hook.py").write_text(HOOK.format(window=WINDOW, store=str(folder / "clew.db")))
    model = {"model": "openai/mock-model", "api_base": upstream.base_url, "api_key": KEY}
    settings = {"callbacks": "clew_hook.hook"}
    listed = [{"model_name": "mock-model", "litellm_params": model}]
    (folder / "config.yaml").write_text(json.dumps({"model_list": listed, "litellm_settings": settings}))
    command = [sys.executable, "-c", "from litellm import run_server; run_server()"]
    words = ["--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", **ALONE}
    with (folder / "proxy.log").open("w") as log:
        process = subprocess.Popen([*command, *words], env=environ, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            await_answer(f"http://127.0.0.1:{port}/health/liveliness", process, folder / "proxy.log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(30)


def await_answer(url: str, process: Any, log: Path, seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-3_000:])


def run_agent(client: Any, messages: list[Any], stream: bool = False) -> None:
    """A loop as agents have it: until the model answers without a call."""
    tools = [{"type": "function", "function": TOOL}]
    while True:
        asked = {"model": "mock-model", "messages": messages, "tools": tools}
        said = streamed(client, asked) if stream else client.chat.completions.create(**asked).choices[0].message
        calls = [it.model_dump() for it in said.tool_calls or ()]
        messages.append({"role": "assistant", "content": said.content, **({"tool_calls": calls} if calls else {})})
        for it in calls:
            content = part(json.loads(it["function"]["arguments"])["number"])
            messages.append({"role": "tool", "tool_call_id": it["id"], "content": content})
        if not calls:
            return


def streamed(client: Any, asked: dict[str, Any]) -> Any:
    with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        return stream.get_final_completion().choices[0].message


def test_a_conversation_folds_twice_also_streamed_and_after_a_restart(tmp_path: Path) -> None:
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    with running() as upstream, running() as later:
        with proxy_before(upstream, tmp_path) as url:
            run_agent(OpenAI(base_url=url, api_key=KEY), messages)
            assert_it_went_well(upstream)
            assert len(messages) > 2 * len(requests_of(upstream)[-1])
        messages.append({"role": "user", "content": "And once more."})
        with proxy_before(later, tmp_path) as url:
            run_agent(OpenAI(base_url=url, api_key=KEY), messages, stream=True)
            assert_it_goes_on(upstream, later)
            assert_it_went_well(later)


def round_of(call_type: str, number: int) -> list[Any]:
    """A call and its result, as a wire writes them."""
    arguments, text = {"number": number}, part(number)
    if call_type == "acompletion":
        function = {"name": "read_part", "arguments": json.dumps(arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": text}
        return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
    if call_type == "anthropic_messages":
        use = {"type": "tool_use", "id": f"c{number}", "name": "read_part", "input": arguments}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    call = {"type": "function_call", "call_id": f"c{number}", "name": "read_part", "arguments": json.dumps(arguments)}
    return [call, {"type": "function_call_output", "call_id": f"c{number}", "output": text}]


@pytest.mark.parametrize("call_type", ["acompletion", "anthropic_messages", "aresponses"])
async def test_messages_of_every_wire_are_the_very_objects_where_nothing_changed(call_type: str) -> None:
    hook = ClewHook(context_length=WINDOW)
    field = "input" if call_type == "aresponses" else "messages"
    history: list[Any] = [{"role": "user", "content": TASK}]
    sent: list[list[Any]] = []
    for number in range(60):
        history += round_of(call_type, number)
        data: dict[str, Any] = {"model": "mock-model", field: list(history), "litellm_call_id": f"id-{number}"}
        sent.append((await hook.async_pre_call_hook(None, None, data, call_type))[field])
        known = {id(message) for message in history}
        assert sent[-1][-1] is history[-1]
        assert sum(id(message) not in known for message in sent[-1]) < 20
        used = type("Response", (), {"usage": {"prompt_tokens": 900, "completion_tokens": 9}})
        await hook.async_log_success_event({"litellm_call_id": f"id-{number}"}, used, None, None)
    moved = sum(later[: len(one)] != one for one, later in pairwise(sent))
    (conversations,) = hook.conversations
    assert moved == len(conversations.projections[0].compactions) >= 2


async def test_other_calls_pass_as_they_are() -> None:
    hook = ClewHook(context_length=WINDOW)
    for call_type, data in (("aembedding", {"input": ["a"]}), ("aresponses", {"input": "a text"})):
        assert await hook.async_pre_call_hook(None, None, data, call_type) is data
    assert hook.conversations == []


async def test_each_model_has_the_window_that_litellm_knows() -> None:
    hook = ClewHook()
    history = [
        {"role": "user", "content": TASK},
        *(it for number in range(60) for it in round_of("acompletion", number)),
    ]
    shown = {}
    for model in ("gpt-3.5-turbo", "gpt-4.1"):
        data = {"model": model, "messages": list(history)}
        shown[model] = len((await hook.async_pre_call_hook(None, None, data, "acompletion"))["messages"])
    assert shown["gpt-3.5-turbo"] < len(history)
    assert shown["gpt-4.1"] == len(history)


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_litellm.py")
