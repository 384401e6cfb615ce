"""Runs a program in this terminal as if it had been called by itself: its exit status, and every signal."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Thread

from clew.cli.wrap.overlays import WrappedProgram
from clew.errors import InvalidArgument
from clew.portable import IS_POSIX, ends_with_its_parent

_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGQUIT")
_FROM_THE_KEYBOARD = ("SIGINT", "SIGQUIT")


async def run_child(program: WrappedProgram) -> int:
    """Run a program to its end, while the loop goes on. Negative: the signal that ended it.

    It shares standard input, output and error, and the process group, so that the terminal is its own. It ends when
    this process is killed.
    """
    child = _start(program)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    for name in _PASSED_ON if IS_POSIX else ():
        number = signal.Signals[name]
        loop.add_signal_handler(number, _pass_on, child, number)
    Thread(target=_wait, args=(child, loop, ended), daemon=True).start()
    try:
        return await ended
    finally:
        if child.poll() is None:
            child.terminate()


def _start(program: WrappedProgram) -> subprocess.Popen[bytes]:
    """Called in the main thread, since the end of a thread counts as the end of a parent."""
    try:
        return subprocess.Popen(program.command, env=program.environ, preexec_fn=ends_with_its_parent())
    except OSError as error:
        raise InvalidArgument(
            f"{program.command[0]} cannot be run ({error.strerror}); check that it is installed and on the PATH"
        ) from error


def die_of(number: int) -> None:
    """End this process by a signal, as the child was: a shell that waits for it sees the same."""
    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        sys.stdout.flush()
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _pass_on(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if number.name in _FROM_THE_KEYBOARD and _is_in_front():
        return  # the terminal sends these to the whole group, the child included
    with suppress(ProcessLookupError):
        child.send_signal(number)


def _is_in_front() -> bool:
    """Whether a terminal sends what is typed to this process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _wait(child: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, ended: asyncio.Future[int]) -> None:
    code = _wait_with_stops(child) if IS_POSIX else child.wait()
    with suppress(RuntimeError):  # the loop was closed first
        loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(code))


def _wait_with_stops(child: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a child. While it is stopped (Ctrl-Z) this process is too, so that the shell goes on."""
    while True:
        try:
            _, status = os.waitpid(child.pid, os.WUNTRACED)
        except ChildProcessError:
            return child.wait()
        if not os.WIFSTOPPED(status):
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGCONT)
