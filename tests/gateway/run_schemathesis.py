#!/usr/bin/env python3
"""Let schemathesis call the hosted conversations by their OpenAPI description, against a real gateway with keys.

`./check api` makes an environment with schemathesis and runs this; arguments go on to `schemathesis run`. The stream of
events never ends by itself, so that it is left to the tests.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clew.gateway import hash_key, make_key
from clew.store import NewKey
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import gateway_with

# A text beyond its bound makes a body beyond its own: that, too, is a refusal.
CONFIG = """\
[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""
ENVIRON = {"CLEW_MODEL_API_KEY_ENV": "UPSTREAM_KEY", "UPSTREAM_KEY": "fake-key-of-the-upstream"}


async def run(program: str, arguments: list[str]) -> int:
    with TemporaryDirectory() as folder:
        upstream = Upstream(answers=lambda _: UpstreamAnswer("ok"))
        async with gateway_with(upstream, Path(folder), environ=ENVIRON) as flow:
            key = make_key()
            await flow.store.create_key(NewKey("schemathesis", hash_key(key)))
            described = f"{flow.root}/clew/openapi.json"
            fixed = [
                "--checks",
                "all",
                "--exclude-operation-id",
                "follow_events",
                "--header",
                f"Authorization: Bearer {key}",
            ]
            config = Path(folder) / "schemathesis.toml"
            config.write_text(CONFIG, encoding="utf-8")
            command = (program, "--config-file", str(config), "run", described, *fixed, *arguments)
            process = await asyncio.create_subprocess_exec(*command)
            return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1], sys.argv[2:])))
