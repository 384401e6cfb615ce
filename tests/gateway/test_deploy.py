"""The files of deploy/ say what Clew understands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from clew.cli.serve import serve_command
from clew.config import read_config

DEPLOY = Path(__file__).parents[2] / "deploy"


def started_by_docker() -> list[str]:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    return [word for name in ("ENTRYPOINT", "CMD") for word in json.loads(_instruction(dockerfile, name))]


def started_by_systemd() -> list[str]:
    unit = (DEPLOY / "clew.service").read_text()
    return shlex.split(_instruction(unit, "ExecStart", "="))


def _instruction(text: str, name: str, sign: str = " ") -> str:
    (found,) = re.findall(rf"^{name}{sign}(.+)$", text, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("command", [started_by_docker(), started_by_systemd()], ids=["docker", "systemd"])
def test_what_is_started_is_a_command_that_there_is(command: list[str]) -> None:
    assert command[0].rpartition("/")[2] == "clew"
    assert command[1] == "serve"
    assert serve_command.make_context("serve", command[2:]).params["workers"] == 2


def test_compose_sets_what_the_config_knows(tmp_path: Path) -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    given = {name: re.sub(r"\$\{\w+:\?[^}]*\}", "https://x", value) for name, value in _environment(services).items()}
    config = read_config({"CLEW_HOME": str(tmp_path), **given})
    assert config.problems == ()
    assert config.settings.model.base_url == "https://x"
    assert config.settings.store.url is not None and config.settings.store.url.endswith("@database/clew")
    assert given[config.settings.model.api_key_env or ""] == "https://x"
    assert services["clew"]["depends_on"]["database"]["condition"] == "service_healthy"


def test_compose_asks_for_nothing_that_the_example_leaves_out() -> None:
    asked = set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text()))
    lines = (DEPLOY / "env.example").read_text().splitlines()
    assert asked == {line.partition("=")[0] for line in lines if line and not line.startswith("#")}


def _environment(services: dict[str, dict[str, dict[str, str]]]) -> dict[str, str]:
    return services["clew"]["environment"]
