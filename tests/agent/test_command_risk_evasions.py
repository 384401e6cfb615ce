"""Ways around the reading of a command line: each of these once passed unseen, or must never come to."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from clew.agent.command_risk import risk_of_command
from tests.support.cases import every_case

HOME = "/home/someone"
PROJECT = Path(HOME, "project")
ENVIRON = {"HOME": HOME, "VIRTUAL_ENV": f"{HOME}/project/.venv"}

EVADING: tuple[str, ...] = (
    "declare -a files=($(rm -rf src))",
    # words that the shell takes apart or puts together
    "rm${IFS}-rf${IFS}/home/someone",
    "X='-rf /home/someone'; rm $X",
    "X='rm -rf src'; $X",
    "{rm,-rf,src}",
    "{rm,-rf,src}{,}{,}{,}{,}{,}{,}{,}{,}{,}{,}",
    "cp x {src,/etc}/motd",
    "tee {/etc/motd,b} < x",
    "X=ls; printf -v X rm; $X -rf src",
    "X=ls; eval X=rm; $X -rf src",
    "rm -rf src; rm() { :; }",
    "(rm() { :; }); rm -rf src",
    "arr[$(rm -rf src)]=1",
    "printf -v 'arr[$(rm -rf src)]' x",
    "printf -v'arr[`id`]' %s x",
    "grep -e x .env",
    "grep -e .env .env",
    "grep -- -e .env",
    "grep . --label -e .env",
    "grep -fe .env",
    "grep -f -e .env",
    "rg -e . -re .env",
    "rg . --replace -e .env",
    "sed -fe .env",
    "test -v 'a[$(rm -rf src)]'",
    "let 'a[$(rm -rf src)]=1'",
    "alias ls='rm -rf src'; ls",
    # commands in settings and in arguments of others
    "env - rm -rf src",
    "env -iS 'rm -rf src'",
    ". /dev/stdin <<< 'rm -rf src'",
    "bash /dev/stdin <<< 'rm -rf src'",
    "bash /dev/fd/0 <<< 'rm -rf src'",
    "toybox rm -rf src",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf src",
    "flock x -c 'rm -rf src'",
    "watch 'rm -rf src'",
    "tmux new -d 'rm -rf src'",
    "tmux send-keys 'rm -rf src' Enter",
    "screen -dm rm -rf src",
    "expect -c 'spawn rm -rf src'",
    "npx -c 'rm -rf src'",
    "vim -es -c ':!rm -rf src'",
    "less '+!rm -rf src' x",
    "gdb -batch -ex 'shell rm -rf src'",
    "man -P 'rm -rf src' ls",
    "tar -I 'sh -c \"rm -rf src\"' -cf x .",
    "rsync -e 'rm -rf src' a b",
    "mapfile -C 'rm -rf src;' -c 1 < x",
    "make -f - <<< 'x:; rm -rf src'",
    "GIT_PAGER='rm -rf src' git -p log",
    "GIT_EDITOR='rm -rf src' git commit",
    "export PAGER='rm -rf src'",
    "export LD_PRELOAD=x.so",
    "env LD_PRELOAD=x.so ls",
    "NODE_OPTIONS='--require ./x.js' node y.js",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.pager GIT_CONFIG_VALUE_0=x git log",
    # git
    "git -c core.sshCommand=x fetch",
    "git -ccore.pager=x log",
    "git --config-env=core.pager=X log",
    "git -c gpg.program=x commit -S",
    "git -c sequence.editor=x rebase --continue",
    "git --exec-path=/tmp/x status",
    "git clone 'ext::sh -c x' y",
    "git config core.hooksPath hooks",
    "git config alias.st '!rm -rf src'",
    "git difftool -x 'rm -rf src'",
    "git submodule foreach 'rm -rf src'",
    "git submodule foreach rm -rf src",
    "git grep -Ox y",
    "git diff --output=/home/someone/.bashrc",
    "git archive -o /home/someone/x.tar HEAD",
    "git show HEAD:.env",
    "git diff --no-index /dev/null .env",
    # other interpreters, other spellings
    "python3.11 -c \"import shutil; shutil.rmtree('/home/someone')\"",
    "python -c \"from shutil import rmtree as r; r('src')\"",
    "node --eval=\"require('fs').rmSync('src', {recursive: true})\"",
    "lua5.4 -e 'os.execute(\"rm -rf src\")'",
    "deno eval 'Deno.removeSync(\"src\", {recursive: true})'",
    "julia -e 'rm(\"src\", recursive=true)'",
    "elixir -e 'File.rm_rf(\"src\")'",
    "groovy -e '\"rm -rf src\".execute()'",
    "erl -eval 'os:cmd(\"rm -rf src\").'",
    "emacs --batch --eval '(delete-directory \"src\" t)'",
    "tclsh <<< 'exec rm -rf src'",
    "sed '1e rm -rf src' x",
    "sed 's/x/rm -rf src/e' x",
    "sed -n 'w /home/someone/.bashrc' x",
    'awk \'BEGIN{print "x" > "/home/someone/.bashrc"}\'',
    "awk 'BEGIN{for(k in ENVIRON) print ENVIRON[k]}'",
    "jq -n env",
    # files outside
    "find . -fprint /home/someone/.bashrc",
    "curl https://example.com -o/home/someone/.bashrc",
    "curl -sSLo ~/.bashrc https://example.com",
    "sort -o/home/someone/.bashrc x",
    "unzip -o x.zip -d/home/someone",
    "7z x a.7z -o/home/someone",
    "split x ~/y",
    "gzip ~/x",
    "ffmpeg -i x ~/y",
    "patch -p1 -d / < p",
    "ln -s /etc link && echo x > link/motd",
    # secrets
    "cat $(printf .env)",
    "cat server.key",
)

HARMLESS: tuple[str, ...] = (
    "X='-la src'; ls $X",
    "files='a.py b.py'; ruff check $files",
    "cp src/{a,b}.py build/",
    "mkdir -p src/{api,db}/tests",
    "git show HEAD@{1}",
    "git show HEAD:src/app.py",
    "git diff --stat",
    "git config user.name",
    "git config core.pager",
    "git config alias.st status",
    "git -c color.ui=always log",
    "git -c user.name=x commit -m y",
    "git archive -o build/x.tar HEAD",
    "git ls-files -o --exclude-standard",
    "git submodule foreach git status",
    "alias ll='ls -l'",
    "PAGER=cat git log",
    "GIT_EDITOR=true git rebase --continue",
    "EDITOR=vim git commit --amend --no-edit",
    "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
    "env -i PATH=/usr/bin ls",
    "env FOO=1 pytest -q",
    "watch -n 1 ls",
    "tmux new-session -d 'npm run dev'",
    "tar -I zstd -xf a.tar.zst",
    "sed -n '1,20p' src/app.py",
    "sed -e 's/a/b/g' -e 's/c/d/' x",
    "sed 's/name/email/' x",
    "sed '/start/,/end/d' x",
    "sed -n '/we are here/p' x",
    "awk '{print $1 > \"out.txt\"}' x",
    "awk -F: '$3 > 100 {print $1}' x",
    "jq '.env' package.json",
    "jq -r '.scripts | keys[]' package.json",
    "python3.12 -m pytest -q",
    "julia -e 'println(1 + 1)'",
    "curl -so page.html https://example.com",
    "curl -fsSL https://example.com",
    "gunzip -c x.gz | head",
    "unzip -l x.zip",
    "ln -s ../shared/config.json src/config.json",
    "printf '%s\\n' a b",
    "printf '%s\\n' 'see [`a.py`](a.py)'",
    "grep -e .env README.md",
    "grep -n -e id_rsa -e .env docs/a.md",
    "grep -nHe .env docs/a.md",
    "sed -n -e .env README.md",
    "rg -e credentials src",
    "test -f x && echo [$(date)]",
    "vim --version",
    "gdb -batch -ex run -ex bt ./app",
    "build() { make; }; build",
    "IFS=, read -r a b < x",
    'while IFS= read -r line; do echo "$line"; done < x',
    "find . -name '*.py' -printf '%p\\n'",
    "screen -ls",
    "perl -pe 's/a/b/' x",
    "perl -i -pe 's/a/b/' src/app.py",
    "declare -a files=(a b c)",
    "make -f Makefile.ci test",
)


@every_case("command", EVADING)
def test_a_way_around_is_seen(command: str) -> None:
    assert risk_of_command(command, PROJECT, None, ENVIRON) is not None


@every_case("command", HARMLESS)
def test_what_looks_like_a_way_around_is_not_asked_about(command: str) -> None:
    assert risk_of_command(command, PROJECT, None, ENVIRON) is None


def test_a_pattern_that_fits_a_secret_on_the_disk_reads_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("X=1\n")
    (tmp_path / "notes.txt").write_text("nothing\n")
    for command in ("cat .e?v", "cat ./.en*", "head -1 .*"):
        risk = risk_of_command(command, tmp_path, None, ENVIRON)
        assert risk is not None, command
        assert "secret" in risk.reasons[0]
    assert risk_of_command("cat *", tmp_path, None, ENVIRON) is None  # a star alone leaves hidden files out


def test_a_function_of_the_same_name_hides_nothing_that_it_does_not_run() -> None:
    assert risk_of_command("deploy_docs() { echo x; }; deploy_docs", PROJECT, None, ENVIRON) is None
    assert risk_of_command("git() { :; }; git push", PROJECT, None, ENVIRON) is not None


def test_an_agreement_to_publish_here_is_none_to_publish_from_elsewhere() -> None:
    scopes = {
        risk.scope
        for command in ("git push", "cd ../other && git push", "git -C ../other push", "cd $X && git push")
        if (risk := risk_of_command(command, PROJECT, None, ENVIRON)) is not None
    }
    assert len(scopes) == 4


def test_what_is_wrapped_too_deep_is_asked_about_and_not_passed_over() -> None:
    for wrapping in ("tmux new {}", "watch {}", "vim -c {}", "flock x -c {}"):
        command = "rm -rf src"
        for _ in range(14):
            command = wrapping.format(quote(command))
            if len(command) > 150_000:
                break
        assert risk_of_command(command, PROJECT, None, ENVIRON) is not None, wrapping
    assert risk_of_command('GIT_EDITOR="it\'s" git commit', PROJECT, None, ENVIRON) is not None
    assert risk_of_command('tmux send-keys "it\'s" Enter', PROJECT, None, ENVIRON) is None
