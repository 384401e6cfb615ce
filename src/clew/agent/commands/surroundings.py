"""The environment that commands of the agent run in: nothing asks at a keyboard, and no key of a provider goes along.

A command gets what the person's own environment holds, except the keys that only Clew itself needs: those of known
providers and its own. A project that needs one of them gets it by name (`keep`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from clew.providers import KNOWN

# Nobody sits at the keyboard: what would ask or page must fail or go on instead of waiting for the time limit.
_FIXED: Mapping[str, str] = MappingProxyType(
    {
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "MANPAGER": "cat",
        "SYSTEMD_PAGER": "cat",
        "AWS_PAGER": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "SSH_ASKPASS_REQUIRE": "never",
        "DEBIAN_FRONTEND": "noninteractive",
        "PIP_NO_INPUT": "1",
    }
)
# What a person may have set otherwise, with a reason.
_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        # Output through a pipe would come only at the end, and not at all when the time limit ends the command.
        "PYTHONUNBUFFERED": "1",
    }
)
_OWN_SECRET = re.compile(r"CLEW_.*(?:KEY|KEYS|TOKEN|SECRET|PASSWORD|DSN|URL)\Z")


def provider_keys() -> frozenset[str]:
    """Variables under which known providers' keys are given."""
    return frozenset(name for known in KNOWN for name in (known.key_env, *known.other_key_envs) if name)


def environment_for_commands(
    environ: Mapping[str, str], keep: Collection[str] = (), withhold: Collection[str] = ()
) -> dict[str, str]:
    """What a command's environment is; `withhold` names variables that hold keys of ours, as the config says."""
    withheld = provider_keys().union(withhold)
    passed = {
        name: value
        for name, value in environ.items()
        if name in keep or not (name in withheld or _OWN_SECRET.match(name))
    }
    return {**_DEFAULTS, **passed, **_FIXED}
