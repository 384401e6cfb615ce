"""Where settings come from, and what is said when they are wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from clew.config import Settings, api_key_of, declared_settings, load_config, read_config
from clew.errors import ConfigError

PLAIN_FAKE_KEY = "-".join(["not", "a", "real", "key"])


def home_with(folder: Path, text: str | bytes) -> dict[str, str]:
    raw = text if isinstance(text, bytes) else text.encode()
    (folder / "config.yaml").write_bytes(raw)
    return {"CLEW_HOME": str(folder)}


def only_problem(environ: Mapping[str, str], *flags: str) -> str:
    (problem,) = read_config(environ, flags).problems
    return problem.text


def test_without_any_source_every_setting_has_its_default(tmp_path: Path) -> None:
    loaded = load_config({"CLEW_HOME": str(tmp_path)})
    assert loaded.settings == Settings()
    assert loaded.settings.compression.threshold == 0.50
    assert {str(loaded.origin_of(key)) for key in declared_settings()} == {"default"}


def test_the_defaults_are_those_of_the_specification() -> None:
    settings = Settings()
    assert settings.context.engine == "compressor"
    assert dataclasses.astuple(settings.compression) == (True, 0.50, 0.20, 20, 3)
    assert (settings.tool_output.max_result_chars, settings.tool_output.max_turn_chars) == (100_000, 200_000)
    assert settings.tool_output.preview_chars == 1_500
    assert settings.prompt_caching.cache_ttl == "5m"


@pytest.mark.parametrize("written", ["off", "'off'", "Off", "no", "false"])
def test_off_is_a_word_also_where_yaml_reads_it_as_false(tmp_path: Path, written: str) -> None:
    loaded = load_config(home_with(tmp_path, f"recall:\n  automatic: {written}\n"))
    assert loaded.settings.recall.automatic == "off"
    assert "true" in only_problem(home_with(tmp_path, "recall:\n  automatic: on\n"))


def test_file_then_environment_then_flags_overrule_each_other(tmp_path: Path) -> None:
    environ = home_with(tmp_path, "compression:\n  threshold: 0.3\n  protect_last_n: 7\n  protect_first_n: 2\n")
    environ |= {"CLEW_COMPRESSION_THRESHOLD": "0.4", "CLEW_COMPRESSION_PROTECT_LAST_N": "8"}
    loaded = load_config(environ, ["compression.threshold=0.6"])
    compression = loaded.settings.compression
    assert (compression.threshold, compression.protect_last_n, compression.protect_first_n) == (0.6, 8, 2)
    assert str(loaded.origin_of("compression.threshold")) == "flag --set"
    assert str(loaded.origin_of("compression.protect_last_n")) == "env CLEW_COMPRESSION_PROTECT_LAST_N"
    assert str(loaded.origin_of("compression.protect_first_n")) == "file line 4"


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert load_config({"CLEW_HOME": str(tmp_path), "CLEW_MODEL_NAME": " "}).settings.model.name is None


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n", "{}\n", "compression:\nmodel: {}\n"])
def test_a_file_that_says_nothing_changes_nothing(tmp_path: Path, text: str) -> None:
    assert load_config(home_with(tmp_path, text)).settings == Settings()


def test_an_unknown_key_is_named_with_file_line_value_and_the_name_that_was_meant(tmp_path: Path) -> None:
    environ = home_with(tmp_path, "compression:\n  treshold: 0.4\n")
    text = only_problem(environ)
    assert text == (
        f"{tmp_path / 'config.yaml'} line 2: compression.treshold = 0.4: "
        "no such setting; did you mean compression.threshold?"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "compression: {threshold: 1.5}",
            "compression.threshold = 1.5: not allowed; expects a number from 0.01 to 0.99",
        ),
        ("compression: {target_ratio: 0.05}", "expects a number from 0.10 to 0.80"),
        ("compression: {enabled: 1}", "compression.enabled = 1: not allowed; expects true or false"),
        ("compression: {protect_last_n: true}", "= true: not allowed; expects a whole number, 0 or more"),
        ("compression: {protect_last_n: 2.5}", "expects a whole number, 0 or more"),
        ("compression: {protect_last_n: }", "= null: not allowed"),
        ("compression: {threshold: .nan}", "expects a number from"),
        ("prompt_caching: {cache_ttl: 10m}", "= '10m': not allowed; expects 5m or 1h"),
        ("model: {base_url: localhost}", "begins with http:// or https://"),
        ("model: {name: 5}", "model.name = 5: not allowed; expects text on one line, or null; put it in quotes"),
        ("model: {context_length: 20}", "expects a whole number, 1,000 or more, or null"),
        ("model: gpt-5", "model = 'gpt-5': not allowed; expects keys below it: name, provider"),
        ("model: [a]", "model = a list: not allowed; expects keys below it"),
        ("compression: {threshold: {at: 5}}", "compression.threshold = a group of keys: not allowed; expects a number"),
        ("compression.threshold: 0.5", "a dot in a key; write one key below the other"),
        ("1: 2", "1 = 2: no such setting"),
        ("model: {name: 2026-13-45}", None),
        (f"compression: {{protect_last_n: {'9' * 5000}}}", "expects a whole number"),
        ("threshold: 0.5", "did you mean compression.threshold?"),
    ],
)
def test_a_value_that_is_not_allowed_says_what_is(tmp_path: Path, text: str, words: str | None) -> None:
    environ = home_with(tmp_path, text + "\n")
    if words is None:
        assert not read_config(environ).problems
    else:
        assert words in only_problem(environ)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"- a\n- b\n", "line 1: holds a list at the top; keys are expected"),
        (b"just words\n", "holds a single value at the top"),
        (b"compression:\n\tthreshold: 0.5\n", "line 2: not valid YAML"),
        (b"compression:\n\tthreshold: 0.5\n", "indent with spaces, not with tabs"),
        (b"a: b: c\n", "check the indentation, or put a value that contains a colon in quotes"),
        (b"model: {name: 'x\n", "not valid YAML"),
        (b"# caf\xe9\n", "line 1: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (b"model:\n  name: a\x00b\n", "line 2: character 0 is not allowed in YAML"),
        (b"a: &x [1]\nb: *x\n", "line 2: alias *x; write the value out"),
        (b"a: 1\n---\nb: 2\n", "not valid YAML"),
        (b"[" * 50_000, "more than 12 levels deep"),
        (b"# " + b"x" * 100_000, "is larger than 100 KB"),
        (b"model: !!python/name:os.system x\n", "model = 'x': not allowed; expects keys below it"),
    ],
)
def test_a_file_that_is_no_tree_of_settings_is_refused_with_the_reason(tmp_path: Path, raw: bytes, words: str) -> None:
    environ = home_with(tmp_path, raw)
    assert words in only_problem(environ)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        load_config(environ)


def test_a_key_that_stands_twice_is_an_error_that_names_both_lines(tmp_path: Path) -> None:
    text = only_problem(home_with(tmp_path, "compression:\n  threshold: 0.4\n  threshold: 0.5\n"))
    assert "line 3: compression.threshold = 0.5: already set in line 2; keep one" in text


def test_a_folder_in_the_place_of_the_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    assert "config.yaml: is a folder" in only_problem({"CLEW_HOME": str(tmp_path)})


def test_a_file_that_cannot_be_reached_says_why(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").symlink_to(tmp_path / "config.yaml")
    assert "cannot be read" in only_problem({"CLEW_HOME": str(tmp_path)})


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    environ = home_with(tmp_path, "\ufeffcompression:\r\n  threshold: 0.4\r\n".encode())
    assert load_config(environ).settings.compression.threshold == 0.4


def test_all_problems_of_all_sources_are_reported_together_in_order(tmp_path: Path) -> None:
    environ = home_with(tmp_path, "model:\n  nam: x\ncompression:\n  threshold: 2\n  threshold: 3\n")
    environ["CLEW_COMPRESSION_ENABLED"] = "perhaps"
    loaded = read_config(environ, ["context.engine", "a.b=1"])
    assert [problem.key for problem in loaded.problems] == [
        "model.nam",
        "compression.threshold",
        "compression.threshold",
        "compression.enabled",
        "context.engine",
        "a.b",
    ]
    with pytest.raises(ConfigError, match=r"model\.nam.*\(and 5 more; `clew config check` lists them\)"):
        load_config(environ, ["context.engine", "a.b=1"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("compression:\n  summary_model: small\n", "auxiliary.compression.model"),
        ("compression:\n  summary_provider: small\n", "auxiliary.compression.provider"),
        ("compression:\n  summary_base_url: http://small\n", "auxiliary.compression.base_url"),
        ("model:\n  cache_ttl: 1h\n", "prompt_caching.cache_ttl"),
    ],
)
def test_an_old_place_still_works_and_says_where_the_new_one_is(tmp_path: Path, old: str, new: str) -> None:
    loaded = load_config(home_with(tmp_path, old))
    assert loaded.value_of(new) in ("small", "http://small", "1h")
    (notice,) = loaded.notices
    assert f"line 2: {old.split()[0][:-1]}.{old.split()[1][:-1]} is now called {new}" in notice
    assert (tmp_path / "config.yaml").read_text() == old, "reading never writes"


def test_where_old_and_new_place_are_set_the_new_one_counts_and_the_notice_says_so(tmp_path: Path) -> None:
    loaded = load_config(home_with(tmp_path, "prompt_caching: {cache_ttl: 5m}\nmodel: {cache_ttl: 1h}\n"))
    assert loaded.settings.prompt_caching.cache_ttl == "5m"
    assert "both are set, prompt_caching.cache_ttl counts" in loaded.notices[0]


def test_an_old_place_in_the_environment_works_too(tmp_path: Path) -> None:
    loaded = load_config({"CLEW_HOME": str(tmp_path), "CLEW_MODEL_CACHE_TTL": "1h"})
    assert loaded.settings.prompt_caching.cache_ttl == "1h"
    assert "environment CLEW_MODEL_CACHE_TTL" in loaded.notices[0]


def test_a_misspelt_variable_gets_a_notice_and_a_strangers_one_does_not(tmp_path: Path) -> None:
    loaded = load_config({"CLEW_HOME": str(tmp_path), "CLEW_COMPRESION_THRESHOLD": "1", "CLEW_DOCKER_TAG": "x"})
    assert loaded.notices == (
        "environment CLEW_COMPRESION_THRESHOLD is no setting and is not read; did you mean CLEW_COMPRESSION_THRESHOLD?",
    )


@pytest.mark.parametrize(
    "text",
    [
        f"model: {{api_key: [{PLAIN_FAKE_KEY}]}}",
        f"model: {{api_kye: {PLAIN_FAKE_KEY}}}",
        f"model: {{api_key_env: {PLAIN_FAKE_KEY}}}",
        f"model: {PLAIN_FAKE_KEY}\nopenai_key: {PLAIN_FAKE_KEY}",
        f"model: {{api_key: ok, api_key: {PLAIN_FAKE_KEY}}}",
    ],
)
def test_no_error_and_no_repr_shows_a_key(tmp_path: Path, text: str) -> None:
    loaded = read_config(home_with(tmp_path, text.replace(f"model: {PLAIN_FAKE_KEY}", "model:")))
    assert loaded.problems
    assert PLAIN_FAKE_KEY not in " ".join(problem.text for problem in loaded.problems)
    assert PLAIN_FAKE_KEY not in repr(load_config({"CLEW_HOME": "/none", "CLEW_MODEL_API_KEY": PLAIN_FAKE_KEY}))


def test_a_key_is_found_by_value_or_by_the_name_of_its_variable(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path), "WORK_KEY": PLAIN_FAKE_KEY}
    by_name = load_config(environ, ["model.api_key_env=WORK_KEY"]).settings.model
    by_value = load_config(environ, ["model.api_key=itself"]).settings.model
    assert api_key_of(by_name, environ) == PLAIN_FAKE_KEY
    assert api_key_of(by_value, environ) == "itself"
    assert api_key_of(Settings().auxiliary.compression, environ) is None


def test_the_home_folder_follows_clew_home_then_home(tmp_path: Path) -> None:
    assert read_config({"CLEW_HOME": "~/else", "HOME": str(tmp_path)}).path == tmp_path / "else" / "config.yaml"
    assert read_config({"HOME": str(tmp_path)}).path == tmp_path / ".clew" / "config.yaml"


def test_no_two_settings_share_a_variable_and_each_explains_itself() -> None:
    variables = [setting.variable for setting in declared_settings().values()]
    assert len(set(variables)) == len(variables)
    assert "CLEW_HOME" not in variables
    for setting in declared_settings().values():
        assert setting.accepts(setting.default), setting.key
        assert setting.limits.about[0].isupper(), setting.key
