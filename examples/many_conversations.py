"""Async: many conversations at once over one store, each found again by its name after a restart.

`pip install clew-context`
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import clew


async def talk(view: clew.Projection, customer: str) -> tuple[list, list]:
    history = []
    for number in range(40):
        history.append({"role": "user", "content": f"{customer} asks for the price of part {number}. " * 20})
        messages = await view.afit(history, system="You sell parts.")  # send these
        history.append({"role": "assistant", "content": f"Part {number} costs {number * 37}. " * 10})
    return history, messages


async def main(folder: Path) -> None:
    with clew.Projection(context_length=8_000, store=folder / "state.db", name="anna") as view:
        customers = {"anna": view, "ben": view.another(name="ben"), "chen": view.another(name="chen")}
        talks = await asyncio.gather(*(talk(each, name) for name, each in customers.items()))
    for name, (history, messages) in zip(customers, talks, strict=True):
        print(f"{name}: {len(messages)} messages sent at last, of {len(history) - 1}")
    print(await clew.acompress(talks[0][0], target_tokens=2_000))  # once, without a store


with TemporaryDirectory() as temporary:
    asyncio.run(main(Path(temporary)))
