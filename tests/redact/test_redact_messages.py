"""Messages: secrets leave every text in them, calls stay JSON, and the rest stays as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clew.messages import Message
from clew.redact import CATALOG, redact_arguments, redact_messages
from clew.testing import user
from tests.support.cases import every_case
from tests.support.secret_examples import example_secret

TOKEN = example_secret(next(kind for kind in CATALOG if kind.name == "github-token"))
HIDDEN = "[REDACTED:github-token]"


def call(arguments: str) -> Message:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "run", "arguments": arguments}}],
    }


def arguments_in(message: Message) -> str:
    return message["tool_calls"][0]["function"]["arguments"]


def test_a_message_without_secrets_is_the_same_object() -> None:
    messages: list[Message] = [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        call('{"path": "a\\nb.py"}'),
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "assistant", "content": None},
    ]
    cleaned = redact_messages(messages)
    assert all(new is old for new, old in zip(cleaned, messages, strict=True))


def test_a_message_with_a_secret_is_a_new_one_and_the_old_is_untouched() -> None:
    message: Message = {"role": "user", "content": f"use {TOKEN}"}
    (clean,) = redact_messages([message])
    assert clean == {"role": "user", "content": f"use {HIDDEN}"}
    assert message["content"] == f"use {TOKEN}"


def test_parts_are_cleaned_and_pictures_are_left_alone() -> None:
    picture: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "AKIA" + "A" * 16}}
    message: Message = {"role": "user", "content": [{"type": "text", "text": TOKEN}, picture]}
    (clean,) = redact_messages([message])
    assert clean["content"] == [{"type": "text", "text": HIDDEN}, picture]
    assert isinstance(clean["content"], list)
    assert clean["content"][1] is picture


def test_ids_and_signatures_are_left_alone() -> None:
    message: Message = {
        "role": "assistant",
        "content": "x",
        "reasoning": [{"type": "thinking", "thinking": f"I saw {TOKEN}", "signature": TOKEN}],
    }
    (clean,) = redact_messages([message])
    assert clean["reasoning"] == [{"type": "thinking", "thinking": f"I saw {HIDDEN}", "signature": TOKEN}]


def test_arguments_stay_json_and_keep_every_other_byte() -> None:
    arguments = '{ "cmd":"echo \\"' + TOKEN + '\\"\\n" ,"n": 1.0, "big": 12345678901234567890 }'
    (clean,) = redact_messages([call(arguments)])
    assert arguments_in(clean) == arguments.replace(TOKEN, HIDDEN)
    assert json.loads(arguments_in(clean))["cmd"] == f'echo "{HIDDEN}"\n'


def test_a_secret_is_known_by_its_key_inside_arguments() -> None:
    clean = redact_arguments('{"user": "ann", "password": "it\\"s s0", "db_password": "hunt\\"er2"}')
    assert json.loads(clean) == {"user": "ann", "password": 'it"s s0', "db_password": "[REDACTED:password]"}


def test_a_secret_behind_an_escape_is_found() -> None:
    clean = redact_arguments('{"url": "https://h/?a=1\\u0026access_token=a1b2c3d4e5f6g7h8"}')
    assert json.loads(clean) == {"url": "https://h/?a=1&access_token=[REDACTED:token]"}


def test_json_inside_json_stays_json_on_both_levels() -> None:
    inner = json.dumps({"password": "hunter2", "n": 1})
    clean = redact_arguments(json.dumps({"body": inner}))
    assert json.loads(json.loads(clean)["body"]) == {"password": "[REDACTED:password]", "n": 1}


def test_a_name_and_its_value_in_two_fields_are_seen_together() -> None:
    clean = redact_arguments('{"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}')
    assert json.loads(clean) == {"env": [{"name": "DB_PASSWORD", "value": "[REDACTED:password]"}]}


def test_numbers_under_a_secret_name_stay_numbers() -> None:
    arguments = '{"token": 123456789012345678, "max_tokens": 4096, "password": null}'
    assert redact_arguments(arguments) is arguments


def test_broken_arguments_are_cleaned_as_text() -> None:
    assert redact_arguments('{"cmd": "echo ' + TOKEN) == '{"cmd": "echo ' + HIDDEN


def test_an_input_that_is_an_object_is_cleaned_by_its_keys() -> None:
    block: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "login", "input": {"password": "hunter2", "n": 1}}
    (clean,) = redact_messages([{"role": "assistant", "content": [block]}])
    assert clean["content"] == [{**block, "input": {"password": "[REDACTED:password]", "n": 1}}]


def test_absurd_nesting_is_cut_off_instead_of_overflowing() -> None:
    nested: Any = TOKEN
    for _ in range(5_000):
        nested = [nested]
    (clean,) = redact_messages([{"role": "user", "content": nested}])
    assert TOKEN not in str(clean["content"])


FORMS = json.loads((Path(__file__).parent / "forms_of_secrets.json").read_text(encoding="utf-8"))
HIDDEN_NAMES = (
    "pass\u200bword=hunter2plus",
    "pa\x1b[31mss\x1b[0mword=hunter2plus",
    "\\u0070assword=hunter2plus",
    "\uff50assword\uff1dhunter2plus",
    "\x1b]0;a title\nof two lines\x07password=hunter2plus",
)


LOG = "".join(f"line {number % 40} of a log that says the same again and again\n" for number in range(25_000))


@every_case("hidden", HIDDEN_NAMES)
def test_a_hidden_name_is_found_in_a_long_history(hidden: str) -> None:
    history = [user(hidden), user(LOG), call(json.dumps({"command": hidden}))]
    clean = redact_messages(history)
    assert "hunter2plus" not in json.dumps(clean)
    assert clean == [redact_messages([message])[0] for message in history]


@every_case("first", range(20))
def test_a_long_history_is_redacted_as_its_messages_are_alone(first: int) -> None:
    history = [user(LOG), *(user(form["text"]) for form in FORMS[first::20])]
    assert redact_messages(history) == [redact_messages([message])[0] for message in history]


OVER_LINES = (
    "token: |\n    Fake0Block1Scalar2x3",
    "- name: API_TOKEN\n  value: Fake0Value1Line2x3",
    'variable "db_password" {\n  type    = string\n  default = "FakeHcl97x"\n}',
    "What is the password?\nFakeAnswer#77",
    "login: joe\npassword fakelogin77 now",
    "user\njoe password fakelogin77 now",
    "mysql -u root \\\n  -pFakeMysql77 shop",
    "curl https://example.org \\\n  -u joe:FakeCurl77",
    "net use Z: ^\n/user:joe FakeShare77",
    "user,password\njoe,FakeCsv077x",
    "| user | password |\n|---|---|\n| joe | FakeCell077 |",
    "user   password\njoe    FakeBlank77",
    "密码\nFakeScript77",
    f"{TOKEN[:12]}\n{TOKEN[12:]}",
    f"{TOKEN[:30]}\n> {TOKEN[30:]} and more",
    f"the key is\\n{TOKEN}",
)


@every_case("text", OVER_LINES)
def test_a_secret_that_only_several_lines_show_is_found_in_a_long_history(text: str) -> None:
    history = [user(LOG), user(text), *(user(line) for line in text.split("\n"))]
    clean = redact_messages(history)
    assert clean == [redact_messages([message])[0] for message in history]
    assert clean[1] != history[1]


BESIDE = (
    ("a title \x1b]0;that is cut", "password=hunter2plus\x07"),
    ("[REDACTED:password", "password=hunter2plus]"),
    ("\uff21 wide letter", "password: hunter2plus\uff0cand more"),
)


@every_case(("first", "second"), BESIDE)
@every_case("log", ["", LOG])
def test_what_a_message_has_does_not_change_how_the_next_is_read(first: str, second: str, log: str) -> None:
    history = [user(log), user(first), user(second)]
    assert redact_messages(history) == [redact_messages([message])[0] for message in history]
    assert "hunter2plus" not in str(redact_messages(history))


def test_a_key_that_is_cut_off_does_not_end_in_the_next_message() -> None:
    body = "MIIEpAIBAAKCAQEAx7FakeFakeKeyBody0123456789abcdefghijklmnopqrstuv"
    history = [
        user(f"-----BEGIN RSA PRIVATE KEY-----\n{body}"),
        user("It has to end in -----END RSA PRIVATE KEY----- or ssh refuses it."),
    ]
    assert redact_messages(history) == [user("[REDACTED:private-key]"), history[1]]


def test_a_long_history_without_secrets_stays_as_it_is() -> None:
    history = [user(f"Nothing to hide in part {number}, all of it. " * 400) for number in range(60)]
    assert all(new is old for new, old in zip(redact_messages(history), history, strict=True))
