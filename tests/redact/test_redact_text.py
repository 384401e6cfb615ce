"""What `redact` promises beside finding secrets: places, placeholders, idempotence, and an end on any input."""

from __future__ import annotations

import base64

import pytest

from clew.redact import CATALOG, SecretFinding, redact, redact_text
from tests.support.secret_examples import example_secret

TOKEN = example_secret(next(kind for kind in CATALOG if kind.name == "github-token"))
MEGABYTES_10 = 10_000_000


def test_a_placeholder_says_the_kind() -> None:
    assert redact_text(f"use {TOKEN}, then") == "use [REDACTED:github-token], then"


def test_a_finding_says_where_and_what_kind_but_never_the_secret() -> None:
    result = redact(f"use {TOKEN}")
    assert result.found == (SecretFinding(4, 4 + len(TOKEN), "github-token"),)
    assert TOKEN not in repr(result)


@pytest.mark.parametrize("inside", [TOKEN, "DB_PASSWORD=FakeHidden_991x", "a: 1\npassword: FakeHidden_991x\n"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_a_secret_is_redacted_and_base64_of_other_text_is_not(inside: str, encode: object) -> None:
    assert callable(encode)
    written, other = encode(inside.encode()).decode(), encode(b"a line of text without any secret in it").decode()
    assert redact_text(f"env: {written}, note: {other}") == f"env: [REDACTED:encoded-secret], note: {other}"


def test_a_key_that_a_program_puts_together_of_two_texts_is_redacted_whole() -> None:
    text = f'key = "{TOKEN[:20]}" + "{TOKEN[20:]}"'
    assert redact_text(text) == 'key = "[REDACTED:github-token]"'


def test_text_without_secrets_comes_back_as_the_same_object() -> None:
    text = "nothing to hide here, only a token of appreciation: max_tokens=4096"
    assert redact_text(text) is text


def test_empty_text_is_fine() -> None:
    assert redact("").found == ()


def test_places_count_characters_also_where_text_is_not_ascii() -> None:
    text = f"密码 é 🔑 {TOKEN} \ud800 完"
    (finding,) = redact(text).found
    assert text[finding.start : finding.end] == TOKEN
    assert redact_text(text) == "密码 é 🔑 [REDACTED:github-token] \ud800 完"


def test_the_more_precise_kind_names_a_secret_that_two_finders_found() -> None:
    assert redact_text(f"GITHUB_TOKEN={TOKEN}") == "GITHUB_TOKEN=[REDACTED:github-token]"
    assert (
        redact_text(f'{{"Authorization": "Bearer {TOKEN}"}}') == '{"Authorization": "Bearer [REDACTED:github-token]"}'
    )


def test_several_secrets_in_one_text_all_go() -> None:
    clean = redact_text(f"a={TOKEN} PASSWORD=hunter2 https://ann:s3cret@host/ {TOKEN}")
    assert clean == (
        "a=[REDACTED:github-token] PASSWORD=[REDACTED:password] "
        "https://ann:[REDACTED:url-password]@host/ [REDACTED:github-token]"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{TOKEN}={TOKEN}",
        f"{TOKEN} = 'a1b2c3d4e5f6g7h8'",
        f"password={TOKEN}.{TOKEN}",
        f"https://ann:{TOKEN}@host",
        f"Cookie: session={TOKEN}; token={TOKEN}",
        f"PASSWORD='{TOKEN}'",
        "figd_" * 100,
        "sk-ant-" * 100,
        "a1Q~" * 100,
        "token=token=token=a1b2c3d4e5f6g7h8",
        "password=password=hunter22",
    ],
)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


def test_a_placeholder_is_never_redacted_whatever_is_around_it() -> None:
    for text in (
        "password=[REDACTED:password]",
        "https://a:[REDACTED:url-password]@h",
        "[REDACTED:api-key]: abc123def456g",
    ):
        assert redact_text(text) is text


# Each is built to make a careless expression try again and again from every place.
HOSTILE = {
    "runs of one prefix": "sk-",
    "prefixes with dashes": "sk-ant-",
    "key blocks that never end": "-----BEGIN PRIVATE KEY-----",
    "headers of key blocks": "-----BEGIN ",
    "dashes": "-----",
    "JSON in base64": "eyJ",
    "parts of a JWT": ".eyJaaaaaaaaaaaaaaaaaaaa",
    "assignments in a row": "a=a=",
    "names in a row": "token=",
    "names and tails": "tokenaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "quotes within quotes": "\"'`",
    "escaped quotes": '\\"',
    "backslashes": "\\",
    "names and quotes": 'token="',
    "URLs without an end": "://a:",
    "headers": "authorization: bearer ",
    "cookies": "cookie=",
    "commands": "curl -u a:",
    "signatures": "sig=",
    "spaces after a name": "token" + " " * 50,
    "options": "--a",
    "one letter": "a",
    "one dash": "-",
    "placeholders": "[REDACTED:",
    "text that is not ASCII": "密码",
}


NAMES = (
    *("password", "DB_PASSWORD", "forgot_password", "api_token", "ACCESS_TOKEN", "next_token", "csrf_token"),
    *("client_secret", "secret_key", "api_key", "cache_key", "STRIPE_KEY", "aws_secret_access_key", "max_tokens"),
)
VALUES = (
    *("fake1FAKE2fake3FAKE4", "a1b2c3d4e5f6a7b8c9d0a1b2c3d4e5f6", "AKIA" + "FAKE0123456789FA", "hunter2plus"),
    *("changeme", "1a1a1a1a1a1a1a1a1a", "xxxxxx1axxxxxxxxxxxx", "$TOKEN", "plainwords", "9fake8FAKE7", "sha256"),
    *("-fakE7fake", "_f_4keFAK3", "#-F4kefAke", "-fake-value", "counter12", "FaKeFaKeFa12", "step-2-fake3x"),
)
FORMS = (
    "{}={}",
    "{} = {}",
    "{}: {}",
    '"{}": "{}",',
    "export {}='{}'",
    "the {} is {}",
    "the {} is {} / x",
    "Cookie: {}={}; a=b",
)


def test_many_secrets_below_each_other_are_found_as_each_alone() -> None:
    for form in FORMS:
        lines = [form.format(name, value) for name in NAMES for value in VALUES] * 2
        assert redact_text("\n\n".join(lines)) == "\n\n".join(map(redact_text, lines))


def test_a_secret_behind_many_of_the_most_frequent_form_is_found_at_its_place() -> None:
    text = "password=hunter2plus\napi_token=fake1FAKE2fake3FAKE4\n" * 20 + "mysql -u root -p'Fj0rd-fake' shop"
    last = redact(text).found[-1]
    assert text[last.start : last.end] == "Fj0rd-fake"
    assert len(redact(text).found) == 41


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_read_to_its_end(unit: str) -> None:
    size = 300_000
    text = (unit * (size // len(unit) + 1))[:size]
    clean = redact_text(f"{text} {TOKEN} ")
    assert TOKEN not in clean


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["-----BEGIN PRIVATE KEY-----", "eyJ", "a=a=", '\\"', "sk-ant-"])
def test_ten_megabytes_of_hostile_text_are_read_to_their_end(unit: str) -> None:
    text = (unit * (MEGABYTES_10 // len(unit) + 1))[:MEGABYTES_10]
    assert redact_text(f"{text} {TOKEN}").endswith("[REDACTED:github-token]")
