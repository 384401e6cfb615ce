"""Fits the weights of the token estimate against real vocabularies, and says how far off it is on each kind of text.

    python benchmarks/fit_estimate.py [FOLDER ...] [--write]

Uses the text of `_texts.py`; every FOLDER adds source files and translations found in it. Without --write it only
reports. "held out" is the error on a kind of text that the fit did not see, which is what strange text will meet.
Non-negative least squares on relative errors, every kind of text weighing the same; plain Python, about two minutes.
"""

from __future__ import annotations

import argparse
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _table import report
from _texts import texts
from clew.tokens.count import features, vocabulary
from clew.tokens.weights import CLASSES, LEAD_SCALE, PAIR_SCALE

WEIGHTS = Path(__file__).resolve().parents[1] / "src" / "clew" / "tokens" / "weights.py"
FITTED = {"o200k": "o200k_base", "gemma": "gemma3"}
"""Gemma's vocabulary is in `splintr-rs` from 0.19 on, which a new fit needs."""
SIZE = 320
# Two bytes outside ASCII side by side cost nothing: leading bytes carry that price, and only they know the script.
OUTSIDE_PAIR = 255
RIDGE = 3e-3
PRIOR = 0.25  # tokens a pair costs where nothing was seen: one token in four characters


@dataclass(frozen=True)
class Sample:
    kind: str
    counts: list[tuple[int, int]]
    tokens: int


Gram = tuple[list[list[float]], list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="replace the weights in the package")
    chosen = parser.parse_args()
    found = texts(chosen.folders)
    weights: dict[str, list[float]] = {}
    for name, encoding in FITTED.items():
        by_kind = _samples(found, encoding)
        grams = {kind: _gram(samples) for kind, samples in by_kind.items()}
        weights[name] = _solved(list(grams.values()))
        rows = [_row(kind, by_kind[kind], weights[name], _without(kind, grams)) for kind in by_kind]
        report(f"estimate_{name}", rows, list(rows[0]))
    if chosen.write:
        WEIGHTS.write_text(_module(weights, sorted(found)), encoding="utf-8")
        print(f"\nwritten: {WEIGHTS}")


def _samples(found: dict[str, list[str]], encoding: str) -> dict[str, list[Sample]]:
    count = vocabulary(encoding).count
    samples: dict[str, list[Sample]] = {}
    for kind, pieces in found.items():
        for piece in pieces:
            seen = [(place, number) for place, number in enumerate(features(piece)) if number and place != OUTSIDE_PAIR]
            samples.setdefault(kind, []).append(Sample(kind, seen, count(piece)))
    return samples


def _gram(samples: Sequence[Sample]) -> Gram:
    """The normal equations of one kind, scaled so that a kind weighs the same however many pieces it has."""
    gram, aim = [[0.0] * SIZE for _ in range(SIZE)], [0.0] * SIZE
    for sample in samples:
        share = 100 / len(samples) / sample.tokens**2
        for place, number in sample.counts:
            row, weight = gram[place], number * share
            aim[place] += weight * sample.tokens
            for other, times in sample.counts:
                row[other] += weight * times
    return gram, aim


def _without(kind: str, grams: dict[str, Gram]) -> list[float]:
    return _solved([gram for other, gram in grams.items() if other != kind], sweeps=40)


def _solved(grams: Sequence[Gram], sweeps: int = 120) -> list[float]:
    gram = [[sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*(g for g, _ in grams), strict=True)]
    aim = [sum(cells) for cells in zip(*(a for _, a in grams), strict=True)]
    ridge = [RIDGE * gram[i][i] + 1e-6 for i in range(SIZE)]
    weights = [PRIOR] * SIZE
    weights[OUTSIDE_PAIR] = 0.0
    for _ in range(sweeps):
        for i in range(SIZE):
            if i == OUTSIDE_PAIR:
                continue
            row = gram[i]
            slope = sum(map(float.__mul__, row, weights)) + ridge[i] * (weights[i] - PRIOR) - aim[i]
            highest = 255 / (PAIR_SCALE if i < 256 else LEAD_SCALE)
            weights[i] = min(highest, max(0.0, weights[i] - slope / (row[i] + ridge[i])))
    return weights


def _errors(samples: Sequence[Sample], weights: Sequence[float]) -> list[float]:
    return [
        100 * (sum(number * weights[place] for place, number in sample.counts) / sample.tokens - 1)
        for sample in samples
    ]


def _row(kind: str, samples: Sequence[Sample], weights: list[float], strange: list[float]) -> dict[str, Any]:
    seen, held = _errors(samples, weights), _errors(samples, strange)
    return {
        "kind": kind,
        "pieces": len(samples),
        "bias %": statistics.fmean(seen),
        "median %": statistics.median(map(abs, seen)),
        "p95 %": _p95(seen),
        "held out: bias %": statistics.fmean(held),
        "median % ": statistics.median(map(abs, held)),
        "p95 % ": _p95(held),
    }


def _p95(errors: Sequence[float]) -> float:
    return sorted(map(abs, errors))[int(0.95 * (len(errors) - 1))]


def _module(weights: dict[str, list[float]], kinds: Sequence[str]) -> str:
    pairs = {name: [round(weight * PAIR_SCALE) for weight in fitted[:256]] for name, fitted in weights.items()}
    leads = {name: [round(weight * LEAD_SCALE) for weight in fitted[256:]] for name, fitted in weights.items()}
    lines = [
        '"""The fitted weights of the token estimate. Written by `benchmarks/fit_estimate.py`; do not edit by hand.',
        "",
        *textwrap.wrap(f"Fitted on: {', '.join(kinds)}.", 116),
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "# Characters that behave alike in a vocabulary; what is not named here is of class 0, and class 15 is all",
        "# that lies outside ASCII.",
        "CLASSES = (",
        *(f"    {characters!r}," for characters in CLASSES),
        ")",
        "",
        "# A pair of neighbours costs weight / PAIR_SCALE tokens: one row per left class, one number per right class.",
        f"PAIR_SCALE = {PAIR_SCALE}",
        "PAIR_WEIGHTS = {",
    ]
    for name, numbers in pairs.items():
        rows = [f"        ({', '.join(map(str, numbers[i : i + 16]))})," for i in range(0, 256, 16)]
        lines += [f'    "{name}": (', *rows, "    ),"]
    lines += [
        "}",
        "",
        "# A character outside ASCII costs weight / LEAD_SCALE tokens by its leading byte, 0xC0 to 0xFF.",
        f"LEAD_SCALE = {LEAD_SCALE}",
        "LEAD_WEIGHTS = {",
    ]
    for name, numbers in leads.items():
        rows = [f"        *({', '.join(map(str, numbers[i : i + 16]))})," for i in range(0, 64, 16)]
        lines += [f'    "{name}": (', *rows, "    ),"]
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    main()
