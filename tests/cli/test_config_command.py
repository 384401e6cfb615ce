"""`clew config` as a person and as a program meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.cli import main
from clew.config import declared_settings

FAKE_KEY = "-".join(["plainly", "fake"])


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    code = main(["config", *words], {"CLEW_HOME": str(home), **environ})
    out, err = capsys.readouterr()
    return code, out, err


def test_show_lists_every_setting_with_where_it_came_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("compression:\n  threshold: 0.4\n")
    code, out, err = run(capsys, tmp_path, "show", "--set", "context.engine=lcm", CLEW_MODEL_NAME="m-1")
    assert (code, err) == (0, "")
    shown = [line.split(maxsplit=2) for line in out.splitlines() if line.startswith("  ")]
    assert ["threshold", "0.4", "file line 2"] in shown
    assert ["engine", "lcm", "flag --set"] in shown
    assert ["name", "m-1", "env CLEW_MODEL_NAME"] in shown
    assert len(shown) == len(declared_settings())


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["show", "model.api_key"]])
def test_show_never_prints_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    environ = {"CLEW_MODEL_API_KEY": FAKE_KEY, "CLEW_MODEL_BASE_URL": f"https://me:{FAKE_KEY}@host/v1"}
    code, out, err = run(capsys, tmp_path, *words, **environ)
    assert code == 0
    assert FAKE_KEY not in out + err
    assert "********" in out


def test_show_as_json_has_everything_a_program_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tmp_path, "show", "compression", "--json", CLEW_COMPRESSION_THRESHOLD="0.4")
    shown = json.loads(out)
    assert code == 0
    assert shown["path"] == str(tmp_path / "config.yaml")
    assert shown["exists"] is False
    assert set(shown["settings"]) == {key for key in declared_settings() if key.startswith("compression.")}
    assert shown["settings"]["compression.threshold"] == {
        "value": 0.4,
        "origin": "env",
        "where": "CLEW_COMPRESSION_THRESHOLD",
        "default": 0.5,
        "allowed": "a number from 0.01 to 0.99",
        "variable": "CLEW_COMPRESSION_THRESHOLD",
        "about": declared_settings()["compression.threshold"].limits.about,
    }


def test_show_of_a_broken_file_shows_what_counts_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("compression:\n  threshold: 7\n")
    code, out, err = run(capsys, tmp_path, "show")
    assert code == 1
    assert "0.5" in out
    assert "line 2: compression.threshold = 7: not allowed" in err


def test_show_explains_more_where_there_is_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = declared_settings()["compression.threshold"].limits.about
    assert about not in run(capsys, tmp_path, "show", COLUMNS="80")[1]
    assert about in run(capsys, tmp_path, "show", COLUMNS="120")[1]


def test_an_unknown_key_to_show_is_refused_with_the_one_that_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, tmp_path, "show", "modle.name")
    assert (code, out) == (2, "")
    assert "did you mean model.name?" in err


def test_set_writes_the_file_and_says_what_counts_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, tmp_path, "set", "compression.enabled", "off")
    assert (code, err) == (0, "")
    assert out == f"compression.enabled = false  (file line 2, {tmp_path / 'config.yaml'})\n"
    assert (tmp_path / "config.yaml").read_text() == "compression:\n  enabled: false\n"


def test_set_refuses_a_value_that_is_not_allowed_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, tmp_path, "set", "prompt_caching.cache_ttl", "2h")
    assert (code, out) == (2, "")
    assert "prompt_caching.cache_ttl = '2h': not allowed; expects 5m or 1h" in err
    assert not (tmp_path / "config.yaml").exists()


def test_set_says_when_the_environment_overrules_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, tmp_path, "set", "model.name", "a", CLEW_MODEL_NAME="b")
    assert code == 0
    assert "model.name = b" in out
    assert "CLEW_MODEL_NAME overrules the file" in err


def test_set_under_an_old_name_sets_the_new_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, tmp_path, "set", "model.cache_ttl", "1h")
    assert code == 0
    assert "model.cache_ttl is now called prompt_caching.cache_ttl" in err
    assert (tmp_path / "config.yaml").read_text() == "prompt_caching:\n  cache_ttl: 1h\n"


def test_set_mends_a_broken_value_and_tells_what_else_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("compression:\n  threshold: 7\n  enabled: perhaps\n")
    code, out, err = run(capsys, tmp_path, "set", "compression.threshold", "0.7")
    assert code == 0
    assert "compression.threshold = 0.7" in out
    assert "compression.enabled = 'perhaps': not allowed" in err


@pytest.mark.parametrize("words", [["model.name"], ["model.name", "x", "--default"]])
def test_set_needs_a_value_or_the_word_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run(capsys, tmp_path, "set", *words)[0] == 2


def test_set_default_takes_a_setting_out_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, tmp_path, "set", "compression.threshold", "0.7")
    code, out, _ = run(capsys, tmp_path, "set", "compression.threshold", "--default")
    assert code == 0
    assert out.startswith("compression.threshold = 0.5  (default")


def test_path_says_where_the_file_is_or_would_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path, "path") == (0, f"{tmp_path / 'config.yaml'}\n", "")
    assert json.loads(run(capsys, tmp_path, "path", "--json")[1])["exists"] is False


def test_check_lists_all_problems_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("compression:\n  threshold: 7\nmodel:\n  nam: x\n  cache_ttl: 1h\n")
    code, out, err = run(capsys, tmp_path, "check")
    assert code == 1
    assert ["line 2: compression.threshold" in out, "line 4: model.nam" in out, out.count("\n")] == [True, True, 2]
    assert "model.cache_ttl is now called" in err
    found = json.loads(run(capsys, tmp_path, "check", "--json")[1])
    assert found["ok"] is False
    assert [problem["key"] for problem in found["problems"]] == ["compression.threshold", "model.nam"]


def test_check_of_a_good_file_or_none_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path, "check")[0] == 0
    (tmp_path / "config.yaml").write_text("compression:\n  threshold: 0.6\n")
    code, out, _ = run(capsys, tmp_path, "check")
    assert (code, out) == (0, f"{tmp_path / 'config.yaml'}: no problems; 1 setting changed from the default\n")
