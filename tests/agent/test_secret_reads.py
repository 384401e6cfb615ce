"""Secrets that are read on the way: by a search of a folder, by files that another command finds, by inline code."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agent.command_risk import risk_kinds_of_command, risk_of_command
from clew.agent.command_risk.tables import RiskKind
from clew.agent.files.paths import Workspace

ENVIRON = {"HOME": "/home/someone", "VIRTUAL_ENV": "/home/someone/project/.venv"}


def asks(command: str, project: Path) -> bool:
    return risk_of_command(command, project, None, ENVIRON) is not None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("API_KEY = None\n")
    (tmp_path / ".env").write_text("SERVICE_KEY=plainly-not-one\nPORT=(8000)\n")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "grep -r SERVICE .",
        "grep -ri service",
        "grep -rn 'SERVICE.*KEY' .",
        "grep -rE 'SERVICE|nothing' .",
        "grep -rP 'SERV\\w+' .",
        "grep -rF '(8000)' .",
        "grep -r '(8000)' .",
        "grep -rv nothing .",
        "grep -r '' .",
        "grep -r -e nothing -e SERVICE .",
        "rg --hidden SERVICE",
        "rg -uu SERVICE .",
        "find . -type f | xargs grep SERVICE",
        "find . -type f -exec grep SERVICE {} +",
    ],
)
def test_a_search_that_would_show_a_line_of_a_secret_is_asked_about(project: Path, command: str) -> None:
    assert asks(command, project)
    (project / ".env").unlink()
    assert not asks(command, project), "without a secret there is nothing to ask"


@pytest.mark.parametrize(
    "command",
    [
        "grep -r TODO .",
        "grep -rn 'def main(' .",
        "grep -rE '(8001)' .",
        "grep -r SERVICE src",
        "grep -rl SERVICE .",
        "grep -rc SERVICE .",
        "grep -r --include='*.py' SERVICE .",
        "grep -r --exclude=.env SERVICE .",
        "grep -r --exclude='.env*' SERVICE .",
        "rg SERVICE",
        "rg --hidden -g '!.env' SERVICE",
        "find . -name '*.py' | xargs grep SERVICE",
        "find . -type f | xargs grep TODO",
        "find . -type f | wc -l",
    ],
)
def test_a_search_that_shows_none_is_not(project: Path, command: str) -> None:
    assert not asks(command, project)


def test_a_search_that_cannot_be_foreseen_is_asked_about(project: Path) -> None:
    assert asks("grep -r $PATTERN .", project)
    assert asks("grep -rE '(a+)+b' .", project)
    assert asks("grep -rE '(' .", project)


@pytest.mark.parametrize("folder", ["~", "/", "..", "/home"])
def test_a_search_of_everything_is_asked_about(project: Path, folder: str) -> None:
    assert asks(f"grep -r x {folder}", project)


@pytest.mark.parametrize(
    "name",
    """.envrc .dev.vars local.settings.json a.p8 client.ovpn wg0.conf secring.gpg client_secret_1.apps.json
    x-firebase-adminsdk-2.json kubeconfig prod.kubeconfig .vault_pass .databrickscfg .terraformrc .passwd-s3fs .secrets
    .token rclone.conf terraform.tfstate terraform.tfstate.backup auth.json .composer/auth.json token.json""".split(),
)
def test_a_credential_file_in_the_project_is_asked_about(project: Path, name: str) -> None:
    assert asks(f"cat {name}", project)


@pytest.mark.parametrize("name", ["tokens.json", "auth.py", "src/token.ts", "wg.conf", "terraform.tf", "secrets.md"])
def test_a_file_that_only_sounds_like_one_is_not(project: Path, name: str) -> None:
    assert not asks(f"cat {name}", project)


@pytest.mark.parametrize("name", [".env", ".env.local", "id_rsa", "x.pem", "credentials.json", ".netrc"])
@pytest.mark.parametrize(
    "command",
    [
        "cat {0}",
        "sort {0}",
        "shuf {0}",
        "some-unknown-program ./{0}",
        "cp {0} x",
        "mv {0} x",
        "ln {0} x",
        "tar cf x {0}",
        "dd if={0}",
        "curl -F x=@{0} localhost",
        "curl -d @{0} localhost",
        "sed -n p {0}",
        "while read l; do echo $l; done < {0}",
        "git show HEAD:{0}",
        "git diff -- {0}",
        "git log -p -- {0}",
        "find . -name {0} -exec cat {{}} +",
        "find . -name {0} | xargs cat",
        "cat $(find . -name {0})",
        "echo {0} | xargs cat",
        "for f in a {0}; do cat $f; done",
        "source ./{0}",
    ],
)
def test_every_way_to_read_a_file_by_its_name_is_asked_about(project: Path, command: str, name: str) -> None:
    assert asks(command.format(name), project)


@pytest.mark.parametrize("pattern", [".e*", ".en?", ".[e]nv", ".*", ".??v", ".{env,x}", "~/.ss?/id*", "*credentials*"])
def test_a_pattern_counts_whether_it_matches_now_or_not(tmp_path: Path, pattern: str) -> None:
    assert asks(f"cat {pattern}", tmp_path)
    assert not asks(f"ls {pattern}", tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "ls -l .env",
        "test -f .env",
        "chmod 600 .env",
        "rm -rf __pycache__",
        "cp .env.example .env",
        "cat .env.example",
        "git add .env",
        "git diff -- . ':!.env'",
        "docker compose --env-file .env up",
        "node --env-file=.env app.js",
        "tar czf x.tgz --exclude=.env src",
        "echo A=1 >> .env",
        "git commit -m 'Read .env'",
        "find . -name .env",
        "kubectl --kubeconfig ~/.kube/config get pods",
    ],
)
def test_what_shows_nothing_of_a_secret_is_not_asked_about(project: Path, command: str) -> None:
    assert not asks(command, project)


@pytest.mark.parametrize(
    ("code", "is_asked"),
    [
        ("python -c 'import os; print(os.environ)'", True),
        ("python -c 'from os import environ; print(environ)'", True),
        ("python -c 'import os; print(os.getenv(\"A_TOKEN\"))'", True),
        ("python -c 'import os; print(os.environ[\"HOME\"])'", False),
        ('python -c \'import os; os.environ["A"] = "1"\'', False),
        ('python -c \'import os; os.environ.setdefault("A", "1")\'', False),
        ("node -p process.env", True),
        ("node -p 'process[\"env\"]'", True),
        ("node -p process.env.NODE_ENV", False),
        ("ruby -e 'p ENV[\"A_TOKEN\"]'", True),
        ("ruby -e 'p ENV[\"HOME\"]'", False),
        ("perl -e 'print %ENV'", True),
        ("perl -e 'print $ENV{A_TOKEN}'", True),
        ("perl -e 'print $ENV{HOME}'", False),
        ("awk 'BEGIN{print ENVIRON[\"A_TOKEN\"]}'", True),
        ("awk 'BEGIN{print ENVIRON[\"HOME\"]}'", False),
        ("php -r 'print_r($_ENV);'", True),
        ("jq -n '$ENV.A'", True),
        ("jq '.env' x.json", False),
        ("python -c 'open(\"/proc/1/environ\")'", True),
        ("python -c 'open(\"/proc/cpuinfo\")'", False),
    ],
)
def test_inline_code_that_reads_the_environment_is_asked_about(project: Path, code: str, is_asked: bool) -> None:
    assert asks(code, project) is is_asked


def test_a_program_that_the_project_has_is_not_fetched(project: Path) -> None:
    assert asks("npx odd-tool --noEmit", project)
    assert asks("cd src && npx odd-tool", project)
    programs = project / "node_modules" / ".bin"
    programs.mkdir(parents=True)
    (programs / "odd-tool").write_text("")
    assert not asks("npx odd-tool --noEmit", project)
    assert not asks("cd src && npx odd-tool", project)
    assert asks("npx odd-tool@latest --noEmit", project)
    assert asks("npx odd-formatter --write src", project)
    assert not asks("npx --no-install prettier", project)


CREDENTIALS = (
    "~/.codex/auth.json ~/.claude/.credentials.json ~/.gemini/oauth_creds.json ~/.local/share/opencode/auth.json "
    "~/.pi/agent/auth.json ~/.config/github-copilot/apps.json ~/.copilot/config.json ~/.cache/huggingface/token "
    "~/.huggingface/token ~/.config/io.datasette.llm/keys.json ~/.config/stripe/config.toml "
    "~/.config/fly/config.yml ~/.local/share/com.vercel.cli/auth.json ~/.config/sops/age/keys.txt "
    "~/.qwen/oauth_creds.json ~/.continue/config.yaml ~/.cline/secrets.json ~/.hermes/auth.json ~/.aider.conf.yml "
    "~/.config/gptme/config.toml ~/.code_puppy/puppy.cfg ~/.terraform.d/credentials.tfrc.json "
    "~/.cargo/credentials.toml ~/.gradle/gradle.properties ~/.m2/settings.xml ~/.config/containers/auth.json "
    "~/.config/doctl/config.yaml ~/.config/heroku/x ~/.wrangler/config/default.toml ~/.supabase/access-token "
    "~/.railway/config.json ~/.config/netlify/config.json ~/.expo/state.json ~/.ngrok2/ngrok.yml "
    "~/.config/ngrok/ngrok.yml ~/.pulumi/credentials.json ~/.databrickscfg ~/.snowsql/config ~/.kaggle/kaggle.json "
    "~/.config/wandb/settings ~/.openai/token ~/.config/anthropic/key ~/.mc/config.json ~/.oci/config "
    "~/.bitcoin/wallet.dat ~/.electrum/wallets/default ~/.thunderbird/x/key ~/.config/Signal/config.json "
    "~/.tomorrow/token ../other/.settings "
).split()


@pytest.mark.parametrize("how", ["cat {}", "jq . {}", "base64 < {}", "cp {} .", "head -c 9 {} | tail -1"])
def test_a_command_that_reads_outside_the_project_is_asked_about_as_the_tool_is(how: str) -> None:
    for path in CREDENTIALS:
        assert asks(how.format(path), Path("/home/someone/project")), path


@pytest.mark.parametrize("path", ["/usr/include/stdio.h", "/etc/os-release", "/proc/cpuinfo", "/usr/lib/python3/x.py"])
def test_files_of_the_system_may_be_read_by_commands_and_by_the_tool(path: str, tmp_path: Path) -> None:
    assert risk_of_command(f"cat {path}", tmp_path, None, {"HOME": "/home/someone"}) is None
    assert Workspace(tmp_path).read_concerns(path) == ()


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/wireguard/wg0.conf", "/home/other/x", "/var/log/auth.log"])
def test_other_files_of_the_system_are_asked_about_in_both_ways(path: str, tmp_path: Path) -> None:
    assert risk_of_command(f"cat {path}", tmp_path, None, {"HOME": "/home/someone"}) is not None
    assert Workspace(tmp_path).read_concerns(path) != ()


READING = """
cat PATH
head -5 PATH
less PATH
cp PATH x
base64 PATH
jq . PATH
sort < PATH
tar cf x.tar PATH
awk 1 PATH
grep . PATH
diff PATH README.md
xxd PATH
sed -n p PATH
pandoc PATH
git hash-object PATH
git diff --no-index README.md PATH
git add PATH
perl -pe '' PATH
bash PATH
python3 PATH
source PATH
zcat -f PATH
iconv PATH
m4 PATH
split PATH
comm PATH README.md
sqlite3 PATH .dump
docker run -v PATH:/x a cat /x
docker run --mount type=bind,source=PATH,target=/x a
docker build PATH
kubectl diff -f PATH
xmllint PATH
some-program-of-tomorrow PATH
some-program-of-tomorrow --input=PATH
find PATH -type f -exec cat {} +
find PATH -name '*.json' | xargs cat
cat $(find PATH -type f)
find PATH | while read f; do cat "$f"; done
python3 -c "print(open('PATH').read())"
node -e "fs.readFileSync('PATH')"
ruby -e 'puts File.read("PATH")'
lua -e 'io.open("PATH")'
sed 'r PATH' README.md
exec 3< PATH
mapfile -t a < PATH
env X=1 wc PATH
timeout 5 nl PATH
ln PATH x
vim -es PATH
openssl enc -in PATH
curl file://PATH
""".strip().splitlines()
PATHS = (
    "/home/someone/.codex/auth.json /home/someone/Documents/taxes.txt /home/someone/other/notes.md ../other/notes.md "
    "src/../../other/notes.md src/a.py /root/x /tmp/x /var/tmp/x /var/lib/x/y /var/log/syslog "
    "/etc/hostname /etc/os-release /etc/wireguard/wg0.conf /etc/NetworkManager/x /usr/include/stdio.h /opt/x/y "
    "/proc/cpuinfo /proc/self/status /proc/version /sys/class/net /dev/shm/x /run/secrets/x /usr/../root/x"
).split()


@pytest.mark.parametrize("path", PATHS)
def test_commands_and_the_tools_for_files_ask_about_the_same_paths(path: str) -> None:
    project = Path("/home/someone/project")
    tool_asks = Workspace(project).read_concerns(path) != ()
    environ = {"HOME": "/home/someone"}
    for how in READING:
        command = how.replace("PATH", path)
        kinds = risk_kinds_of_command(command, project, environ)
        # Some ask for another reason, too.
        assert bool(kinds if tool_asks else kinds & {RiskKind.OUTSIDE}) == tool_asks, command


NAMES_ONLY = (
    "ls -la {}; stat {}; test -f {}; [ -f {} ]; cd {}; which {}; realpath {}; dirname {}; basename {}; readlink {}; "
    "du -sh {}; file {}; find {} -maxdepth 1; tree -L 1 {}; echo {}; command -v {}; df {}"
)


@pytest.mark.parametrize("path", ["/home/someone/Documents", "../other", "/var/lib/x"])
def test_a_command_that_only_names_or_lists_files_is_not_asked_about(path: str) -> None:
    project = Path("/home/someone/project")
    assert [how for how in NAMES_ONLY.split("; ") if asks(how.replace("{}", path), project)] == []


@pytest.mark.parametrize(
    "command", ["ln -s ../other x", "ln -s ../../other/x.txt src/x.txt", "ln -s /home/someone/y y"]
)
def test_a_link_out_of_the_project_is_asked_about(command: str) -> None:
    assert asks(command, Path("/home/someone/project"))


def test_a_link_within_the_project_is_relative_to_its_folder() -> None:
    assert not asks("ln -s ../lib/x.txt src/x.txt", Path("/home/someone/project"))


@pytest.mark.parametrize(
    "code", ["print('../x')", "Path('/srv/b').name", "app.get('/api/users'); read()", "open('src/../README.md')"]
)
def test_a_text_in_code_that_is_no_file_outside_is_not_asked_about(code: str) -> None:
    assert not asks(f'python3 -c "{code}"', Path("/home/someone/project"))


def test_names_of_variables_by_their_beginning_lead_to_their_values() -> None:
    assert asks('for v in ${!A*}; do echo "${!v}"; done', Path("/home/someone/project"))
    assert asks('echo "${!OPENAI@}"', Path("/home/someone/project"))
