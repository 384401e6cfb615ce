"""`tidepost run|flush|report`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import urllib.request
from pathlib import Path

from tidepost.backoff import Backoff
from tidepost.config import Config, ConfigError, load
from tidepost.readings import parse_line
from tidepost.relay import Relay
from tidepost.report import render, summarise
from tidepost.spool import Spool
from tidepost.uplink import LinkDownError, Uplink


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tidepost", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("config/tidepost.toml"))
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="spool the lines of a gauge file")
    run.add_argument("gauge", type=Path)
    commands.add_parser("flush", help="send what is spooled")
    report = commands.add_parser("report", help="sum up a gauge file")
    report.add_argument("gauge", type=Path)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    try:
        config = load(args.config)
    except ConfigError as error:
        print(f"tidepost: {error}", file=sys.stderr)
        return 2
    if args.command == "run":
        return _run(config, args.gauge)
    if args.command == "flush":
        return _flush(config)
    print(render(summarise(parse_line(line) for line in args.gauge.read_text().splitlines())))
    return 0


def _run(config: Config, gauge: Path) -> int:
    relay = Relay(
        Spool(config.spool_directory, config.max_files), config.batch_size, config.batch_age_s, time.monotonic
    )
    with gauge.open() as lines:
        relay.feed(lines)
    relay.close()
    return 0


def _flush(config: Config) -> int:
    def post(raw: bytes) -> int:
        request = urllib.request.Request(config.url, data=raw, method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=config.timeout_s) as reply:  # noqa: S310
            return reply.status

    backoff = Backoff(config.max_tries, config.first_delay_s)
    try:
        sent = Uplink(post, Spool(config.spool_directory, config.max_files), backoff).flush()
    except LinkDownError as error:
        print(f"tidepost: {error}", file=sys.stderr)
        return 1
    print(f"sent {sent} batches")
    return 0
