"""Tables of how programs use their arguments: which run other commands, which read or write files.

Nothing here is dangerous by itself; that is in `facts`.
"""

# ruff: noqa: E501 (one line per fact)
from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs the command in its arguments."""

    name: str
    """Several words where a subcommand does it: `uv run`."""
    valued: str = ""
    """Flags whose value is the next word."""
    skips: int = 0
    """Positional arguments before the command."""
    adds_arguments: bool = False
    """It adds arguments that are known only when it runs."""


WRAPPERS: tuple[Wrapper, ...] = (
    Wrapper("sudo", "-u -g -p -C -h -r -t -T -U -D -R --user --group --prompt --chdir --host"),
    Wrapper("doas", "-u -C"),
    Wrapper("pkexec", "--user"),
    Wrapper("run0", "-u --user"),
    Wrapper("env", "-u --unset -C --chdir"),
    Wrapper("timeout", "-s -k --signal --kill-after", 1),
    Wrapper("gtimeout", "-s -k --signal --kill-after", 1),
    Wrapper("nice", "-n --adjustment"),
    Wrapper("ionice", "-c -n --class --classdata"),
    Wrapper("chrt", "", 1),
    Wrapper("taskset", "", 1),
    Wrapper("nohup"),
    Wrapper("setsid"),
    Wrapper("stdbuf", "-i -o -e --input --output --error"),
    Wrapper("unbuffer"),
    Wrapper("time", "-f -o --format --output"),
    Wrapper("command"),
    Wrapper("builtin"),
    Wrapper("exec", "-a"),
    Wrapper("xargs", "-I -n -P -L -d -s -E -a --max-args --max-procs --delimiter --arg-file --replace", 0, True),
    Wrapper("parallel", "-j -S -a --jobs --colsep", 0, True),
    Wrapper("watch", "-n --interval"),
    Wrapper("entr", "", 0),
    Wrapper("strace", "-e -o -p -s -u"),
    Wrapper("ltrace", "-e -o -p -s -u"),
    Wrapper("flock", "-w -E --timeout", 1),
    Wrapper("chroot", "", 1),
    Wrapper("unshare", "-S -G"),
    Wrapper("nsenter", "-t --target"),
    Wrapper("firejail"),
    Wrapper("faketime", "", 1),
    Wrapper("busybox"),
    Wrapper("toybox"),
    Wrapper("ld.so", "--library-path --preload"),
    Wrapper("ld-linux-x86-64.so.2", "--library-path --preload"),
    Wrapper("ld-linux-aarch64.so.1", "--library-path --preload"),
    Wrapper("screen", "-S -c -h -t -T"),
    Wrapper("tmux new", "-s -n -c -t -e -x -y"),
    Wrapper("tmux new-session", "-s -n -c -t -e -x -y"),
    Wrapper("tmux new-window", "-n -c -t -e"),
    Wrapper("git submodule foreach"),
    Wrapper("caffeinate", "-t -w"),
    Wrapper("dotenv run", "-f"),
    Wrapper("uv run", "--with --python -p --extra --group --env-file --project --directory --package"),
    Wrapper("uvx", "--with --python -p --from"),
    Wrapper("poetry run"),
    Wrapper("pipenv run"),
    Wrapper("pdm run", "-p"),
    Wrapper("rye run"),
    Wrapper("hatch run"),
    Wrapper("conda run", "-n -p --name --prefix"),
    Wrapper("mamba run", "-n -p"),
    Wrapper("mise exec", "", 0),
    Wrapper("direnv exec", "", 1),
    Wrapper("bundle exec"),
    Wrapper("git bisect run"),
    Wrapper("npx", "-p --package"),
    Wrapper("bunx"),
    Wrapper("pnpm exec"),
    Wrapper("pnpm dlx"),
    Wrapper("yarn dlx"),
    Wrapper("npm exec"),
    Wrapper("docker exec", "-e -u -w --env --user --workdir --env-file --detach-keys", 1),
    Wrapper("podman exec", "-e -u -w --env --user --workdir", 1),
    Wrapper("docker compose exec", "-e -u -w --env --user --workdir --index", 1),
    Wrapper("docker-compose exec", "-e -u -w --env --user --workdir --index", 1),
    Wrapper("kubectl exec", "-n --namespace -c --container --context", 1),
)


@dataclass(frozen=True, slots=True)
class ProgramFlags:
    """Flags of commands whose value is a program that they run."""

    commands: str
    flags: str
    harmless: str = ""
    """Programs that are run so every day."""
    is_attached: bool = False
    """The value may stand in one word with a short flag: `-Ix`."""


PROGRAM_FLAGS: tuple[ProgramFlags, ...] = (
    ProgramFlags(
        "tar|gtar|bsdtar",
        "-I --use-compress-program",
        "gzip pigz bzip2 pbzip2 lbzip2 xz pixz zstd zstdmt lz4 lzma brotli",
        True,
    ),
    ProgramFlags("tar|gtar|bsdtar", "--to-command --rsh-command --rmt-command --new-volume-script --info-script -F"),
    ProgramFlags("rsync", "-e --rsh --rsync-path", "ssh rsync"),
    ProgramFlags("rg", "--pre --hostname-bin"),
    ProgramFlags("man", "-P --pager -H --html", "cat less more", True),
    ProgramFlags("zip|zipcloak", "-TT --unzip-command"),
    ProgramFlags("gcc|g++|cc|c++|clang|clang++", "-wrapper -fplugin -B", "static dynamic symbolic", True),
    ProgramFlags("sort", "--compress-program", "gzip zstd xz lz4"),
    ProgramFlags("split", "--filter", "gzip zstd xz bzip2 lz4 cat wc"),
    ProgramFlags("wget", "--use-askpass"),
    ProgramFlags("ssh|scp|sftp", "-S"),
    ProgramFlags("fzf", "--preview --bind", "cat bat head"),
    ProgramFlags("git", "--upload-pack --receive-pack --extcmd --exec-path --open-files-in-pager"),
    ProgramFlags("sqlite3|sqlite", "-cmd"),
    ProgramFlags("crontab|batch", "-e"),
    ProgramFlags("ip", "netns"),
    ProgramFlags("openssl", "-engine -provider-path"),
    ProgramFlags("dpkg|rpm", "--pipe --pre-invoke --post-invoke"),
    ProgramFlags("apt|apt-get", "-o"),
    ProgramFlags("nmap", "--script"),
    ProgramFlags("tcpdump", "-z"),
    ProgramFlags("java", "-javaagent -agentpath"),
    ProgramFlags("entr|watchexec|nodemon", "--exec", "node python pytest npm cargo go"),
)

VALUE_FLAGS: dict[str, str] = {
    "git": "-C -c --git-dir --work-tree --namespace --exec-path",
    "kubectl": "-n --namespace --context --kubeconfig -l --selector -o --output -f --filename --cluster --user",
    "helm": "-n --namespace --kube-context -f --values --set",
    "docker": "-H --host --context --config -c -l --log-level -f --file",
    "docker-compose": "-f --file -p --project-name --profile",
    "npm": "--prefix -w --workspace --registry",
    "pnpm": "-C --dir -F --filter",
    "yarn": "--cwd",
    "aws": "--profile --region --output --query --endpoint-url",
    "gcloud": "--project --account --zone --region --format --filter",
    "gh": "-R --repo",
    "terraform": "-chdir",
    "cargo": "--manifest-path -p --package -Z",
    "uv": "--directory --project --python -p",
    "systemctl": "-H --host -M --machine",
    "make": "-C -f -j",
    "split": "-l -b -n -a -C",
}
"""Flags before a subcommand whose value is the next word: `git -C dir push` is a push."""

SHELLS = frozenset("sh bash zsh dash ksh mksh ash fish rbash csh tcsh pwsh".split())
INTERPRETERS: dict[str, str] = {
    "python": "-c",
    "python2": "-c",
    "python3": "-c",
    "pypy": "-c",
    "pypy3": "-c",
    "perl": "-e -E",
    "ruby": "-e",
    "node": "-e --eval -p --print",
    "nodejs": "-e --eval -p --print",
    "deno": "eval",
    "bun": "-e --eval",
    "php": "-r",
    "lua": "-e",
    "Rscript": "-e",
    "osascript": "-e",
    "tclsh": "",
    "luajit": "-e",
    "julia": "-e --eval -E --print",
    "elixir": "-e --eval",
    "groovy": "-e",
    "scala": "-e",
    "erl": "-eval",
    "guile": "-c",
    "sbcl": "--eval",
    "ghc": "-e",
    "swift": "-e",
    "emacs": "--eval -eval",
}
"""Programs that run code, and the flags before it; `python3.11` is python, too."""
MAY_RUN_ARGUMENTS = frozenset("tmux screen expect vim vi nvim view ex less more gdb lldb zip".split())
"""Each of their arguments with a blank in it may be a command line."""
COMMAND_FLAGS: dict[str, str] = {
    "git": "-x --extcmd --exec",
    "tar": "-I --use-compress-program --to-command --rsh-command",
    "rsync": "-e --rsh",
    "mapfile": "-C",
    "readarray": "-C",
    "man": "-P --pager",
    "npx": "-c --call",
    "npm": "-c --call",
    "flock": "-c --command",
}
"""Flags whose value is a command line."""
INSTALLERS = frozenset("pip pip3 uv poetry npm pnpm yarn bun cargo go bundle composer gradle mvn cmake".split())
"""They run code of the folder that they are in."""
DOWNLOADERS = frozenset("curl wget fetch aria2c http https xh lynx w3m".split())
DECODERS = frozenset("base64 base32 xxd openssl uudecode gunzip zcat bzcat xzcat unxz tr rev od hexdump gpg".split())

READERS = frozenset(
    "cat head tail less more bat batcat nl tac grep egrep fgrep rg ag ack sed awk gawk mawk cut sort uniq xxd od hexdump "
    "strings base64 base32 cp mv scp rsync tar zip gzip 7z openssl diff cmp jq yq dd wc paste column fold rev tee "
    "vim vi nano emacs ed view install ln curl wget nc ncat socat xargs python python3 perl ruby node".split()
)
"""Commands that show, copy or send what is in a file they are given."""
HARMLESS_WITH_SECRETS = frozenset(
    "ls stat test [ [[ touch rm unlink shred mkdir rmdir chmod chown chgrp file du df find fd fdfind echo printf cd pushd "
    "basename dirname realpath readlink which type command tree export unset alias true false : pwd mktemp trash "
    "declare local typeset readonly dirs hash locate lsattr getfacl setfacl kill sleep date seq".split()
)
"""Commands that show nothing of a file that they are given, but its name or its size."""
FINDERS = frozenset({"find", "fd", "fdfind"})
SEARCHERS = frozenset("grep egrep fgrep rg ag ack ugrep zgrep".split())
PATTERN_FIRST = frozenset("grep egrep fgrep zgrep ugrep rg ag ack sed gsed awk gawk mawk nawk jq yq perl".split())
"""Their first positional argument is no file."""

# fmt: off
SECRET_VARIABLE = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PRIVATE_KEY|PAT|AUTH)(?:_ID)?$", re.IGNORECASE)
"""A variable that holds a secret, by its name."""
GIT_INTERNALS = re.compile(r"(?:^|/)\.git/(?!COMMIT_EDITMSG|MERGE_MSG|info/exclude)")
"""Hooks and settings of git: they make other commands run things."""
SCRATCH_FOLDERS = ("/tmp", "/var/tmp", "/private/tmp")  # noqa: S108 (names what may be written to)
"""Outside a project, but writing there is harmless."""
STREAM_DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/full"})
"""Devices that are no files."""
CODE_VARIABLES = re.compile(r"^(?:LD_PRELOAD|LD_AUDIT|LESSOPEN|GIT_EXEC_PATH|GIT_PROXY_COMMAND|GIT_SSH|GIT_CONFIG_(?:COUNT|PARAMETERS|GLOBAL|SYSTEM|KEY_\d+)|DYLD_INSERT_LIBRARIES|BASH_ENV|PROMPT_COMMAND|GIT_SSH_COMMAND|GIT_EXTERNAL_DIFF|GIT_ASKPASS|PERL5OPT|PERL5DB|RUBYOPT|PYTHONSTARTUP|PYTHONHOME|PYTHONBREAKPOINT|LESSCLOSE|ZDOTDIR|GIT_TEMPLATE_DIR|GIT_CONFIG|MAKEFLAGS|TAR_OPTIONS|RSYNC_RSH|SSH_ASKPASS|SUDO_ASKPASS|RUSTC_WRAPPER|RUSTC_WORKSPACE_WRAPPER|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|OPENSSL_CONF|CURL_HOME|WGETRC|LUA_INIT|R_PROFILE(?:_USER)?|CMAKE_\\w+_COMPILER_LAUNCHER|GIT_SEQUENCE_EDITOR|EMACSLOADPATH|VIMINIT|EXINIT|PS4)$")
"""Variables that make other programs run something."""
COMMAND_VARIABLES = re.compile(r"^(?:GIT_)?(?:PAGER|EDITOR|SEQUENCE_EDITOR)$|^(?:MANPAGER|VISUAL|BROWSER|LESSEDIT|FCEDIT)$")
"""Variables whose value is a command line that other programs run."""
SEARCH_PATH_VARIABLES = re.compile(r"^(?:PATH|PYTHONPATH|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|NODE_PATH|RUBYLIB|PERL5LIB|LUA_PATH|GOPATH|CLASSPATH|MANPATH)$")
"""Variables that say where programs and libraries are looked for."""
EVERYDAY_PROGRAMS = frozenset("cat less more true : vim vi nvim nano emacs code delta bat most head tail false echo".split())
"""Pagers and editors that such a variable may name."""
LOADS_CODE = re.compile(r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)\b")
"""In NODE_OPTIONS: makes every node run a file first."""
# fmt: on

DESTINATIONS: dict[str, str] = {
    "cp": "last",
    "mv": "all",
    "ln": "last",
    "install": "last",
    "rsync": "last",
    "tee": "all",
    "touch": "all",
    "mkdir": "all",
    "truncate": "all",
    "rmdir": "all",
    "chmod": "rest",
    "chown": "rest",
    "chgrp": "rest",
    "patch": "all",
    "sponge": "all",
    "mkfifo": "all",
    "mknod": "first",
    "split": "last",
    "ffmpeg": "last",
    "gzip": "all",
    "gunzip": "all",
    "bzip2": "all",
    "bunzip2": "all",
    "xz": "all",
    "unxz": "all",
    "zstd": "all",
}
"""Commands that write files, and which of their positional arguments those are."""
TEXT_WRITERS = frozenset("cp mv ln install tee sponge sed perl dd curl wget patch rsync split awk gawk unzip".split())
"""Commands whose output may be a script; what compilers write is not read by people."""
COMPRESSORS = frozenset("gzip gunzip bzip2 bunzip2 xz unxz zstd".split())
"""They replace the file they are given, unless told to print it."""
BUNDLES_FLAGS = frozenset("curl wget tar unzip sort".split())
"""Their flags are often bundled, `-sSLo x`."""
WRITER_VALUE_FLAGS: dict[str, str] = {
    "mkdir": "-m --mode",
    "install": "-m -o -g --mode --owner --group",
    "truncate": "-s -r --size --reference",
    "touch": "-d -t -r --date --reference",
    "patch": "-p -i -d --strip --input",
    "mkfifo": "-m --mode",
    "sed": "-e -f --expression --file",
    "perl": "-e -E",
}
"""Flags of such commands whose value is the next word, and no file they write."""
OUTPUT_FLAGS: dict[str, str] = {
    "curl": "-o --output --output-dir --cookie-jar -c",
    "wget": "-O --output-document -P --directory-prefix -o",
    "tar": "-C --directory",
    "unzip": "-d",
    "sort": "-o --output",
    "cp": "-t --target-directory",
    "mv": "-t --target-directory",
    "ln": "-t --target-directory",
    "install": "-t --target-directory",
    "gcc": "-o",
    "cc": "-o",
    "clang": "-o",
    "go": "-o",
    "rustc": "-o --out-dir",
    "pip": "--target -t --prefix --root",
    "pip3": "--target -t --prefix --root",
    "pandoc": "-o --output",
    "patch": "-d --directory -o --output -r --reject-file",
    "find": "-fprint -fprint0 -fls -fprintf",
    "csplit": "-f --prefix",
    "7z": "-o",
    "openssl": "-out",
    "ssh-keygen": "-f",
    "git": "--git-dir --work-tree --output -o --separate-git-dir",
}
"""Flags whose value is a file or folder that is written to."""
