"""Tables of what is dangerous on a command line: commands, code and SQL, one line per fact.

In `needs`, terms are separated by blanks and all must be met: one with a dash is a flag (`-r` is met by `-xrf`, too),
one with ~ is a regular expression that any argument must contain, any other is the next positional argument. `|`
separates alternatives, `*` matches anything.
"""

# ruff: noqa: E501 (one line per fact)
from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class RiskKind(StrEnum):
    """The kind of harm that a command can do."""

    DELETE = "delete files"
    DISK = "overwrite a disk"
    PERMISSIONS = "change permissions"
    PRIVILEGES = "act as another user"
    SYSTEM = "control the system"
    HISTORY = "lose work in git"
    PUBLISH = "publish"
    REMOTE = "change something remote"
    DATABASE = "lose data in a database"
    REMOTE_CODE = "run code from the network"
    HIDDEN_CODE = "run code that cannot be seen"
    WRITTEN_CODE = "run what this session wrote"
    OUTSIDE = "write outside the project"
    LASTING = "write what later sessions read or what runs by itself"
    SECRETS = "read secrets"
    SENDING = "send data away"
    PACKAGES = "change installed software"
    EXHAUST = "exhaust the machine"
    UNREADABLE = "could not be read"


@dataclass(frozen=True, slots=True)
class CommandFact:
    """A command that is dangerous whatever its paths are."""

    kind: RiskKind
    commands: str
    needs: str
    reason: str
    unless: str = ""
    """Terms that make it harmless, each on its own."""
    always_ask: bool = False
    """An agreement covers exactly the same command only."""


_FORCE_PUSH = "rewrites or removes history that others may have"
_NO_WAY_BACK = "throws away changes that are not committed"
_GIT_HIDDEN = "makes git run a command that is hidden in a setting"
_GIT_RUNS = (
    r"core\.(?:sshcommand|pager|editor|fsmonitor|hookspath|gitproxy|askpass|alternaterefscommand)|pager\.\w+|"
    r"sequence\.editor|gpg\.(?:\w+\.)?program|gpg\.ssh\.defaultkeycommand|interactive\.difffilter|protocol\.ext\.allow|"
    r"init\.templatedir|uploadpack\.packobjectshook|remote\.[^=]*\.(?:uploadpack|receivepack|vcs)|include(?:if)?\.[^=]*path|"
    r"submodule\.[^=]*\.update|(?:diff|filter|merge|credential|difftool|mergetool|man|browser)\.[^=]*"
    r"(?:external|command|cmd|clean|smudge|process|driver|helper|textconv|path)"
)
"""Settings of git whose value is run."""
_CLOUD = "delete*|remove*|terminate*|destroy*|rm|rb|purge*"

# fmt: off
COMMAND_FACTS: tuple[CommandFact, ...] = (
    CommandFact(RiskKind.DISK, "mkfs*|mke2fs|mkswap|wipefs|cfdisk|blkdiscard|hdparm|cryptsetup|lvremove|vgremove|pvremove|zpool|mdadm", "", "changes or erases a disk", always_ask=True),
    CommandFact(RiskKind.DISK, "fdisk|sfdisk|parted|gdisk|sgdisk", "", "changes or erases a disk", "-l|--list", True),
    CommandFact(RiskKind.DISK, "diskutil", "erase*|partition*|apfs", "changes or erases a disk", always_ask=True),
    CommandFact(RiskKind.DISK, "mount|umount|swapoff|losetup", "~[^-]", "changes what is mounted"),
    CommandFact(RiskKind.PRIVILEGES, "sudo|doas|pkexec|run0|runas", "", "runs with the rights of another user", always_ask=True),
    CommandFact(RiskKind.PRIVILEGES, "su", "", "becomes another user", always_ask=True),
    CommandFact(RiskKind.PRIVILEGES, "passwd|chpasswd|useradd|userdel|usermod|groupadd|groupdel|adduser|deluser|visudo|chsh|setcap", "", "changes users or their rights", always_ask=True),
    CommandFact(RiskKind.PERMISSIONS, "chmod", "-R|--recursive ~^(?:[0-7]{1,3}[2367]$|(?:[ug]*[oa][ugoa]*)?[+=][rwxXst]*w)", "lets everybody write to a whole folder"),
    CommandFact(RiskKind.PERMISSIONS, "chmod", "~^(?:0?[4-7]\\d{3}$|[ugoa]*[+=][rwxX]*s)", "lets a program run with its owner's rights", always_ask=True),
    CommandFact(RiskKind.PERMISSIONS, "chown|chgrp|setfacl", "-R|--recursive", "gives a whole folder another owner"),
    CommandFact(RiskKind.SYSTEM, "shutdown|reboot|halt|poweroff|telinit", "", "stops the machine", always_ask=True),
    CommandFact(RiskKind.SYSTEM, "init", "0|1|6", "stops the machine", always_ask=True),
    CommandFact(RiskKind.SYSTEM, "systemctl", "stop|disable|mask|kill|restart|start|enable|reboot|poweroff|halt|isolate|daemon-reload|set-default|suspend|edit|revert", "changes services of the machine"),
    CommandFact(RiskKind.SYSTEM, "service|rc-service", "* stop|restart|start|reload", "changes services of the machine"),
    CommandFact(RiskKind.SYSTEM, "launchctl", "unload|load|remove|bootout|bootstrap|disable|kill", "changes services of the machine"),
    CommandFact(RiskKind.SYSTEM, "iptables|ip6tables|nft|ufw|firewall-cmd|modprobe|rmmod|insmod|swapon|hostnamectl|timedatectl", "~.", "changes settings of the machine", "-L|--list|--list-all list status"),
    CommandFact(RiskKind.SYSTEM, "sysctl", "-w|-p|--write|--load|~=", "changes settings of the machine"),
    CommandFact(RiskKind.SYSTEM, "killall|pkill|skill|taskkill", "~.", "ends processes by name, whoever started them"),
    CommandFact(RiskKind.SYSTEM, "fuser|lsof", "-k", "ends processes that were not started here"),
    CommandFact(RiskKind.SYSTEM, "crontab", "-r|-e", "changes what runs at fixed times"),
    CommandFact(RiskKind.SYSTEM, "crontab", "*", "changes what runs at fixed times", "-l"),
    CommandFact(RiskKind.SYSTEM, "at|batch|systemd-run", "~.", "runs something later or outside this session"),
    CommandFact(RiskKind.SYSTEM, "history", "-c|-w", "changes the shell's history"),
    # git: work that is lost
    CommandFact(RiskKind.HISTORY, "git", "push -f|--force|--force-with-lease|--force-if-includes|--mirror|-d|--delete|--prune", _FORCE_PUSH, always_ask=True),
    CommandFact(RiskKind.HISTORY, "git", "push ~^[+:].", _FORCE_PUSH, always_ask=True),
    CommandFact(RiskKind.HISTORY, "git", "reset --hard|--merge|--keep", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "clean -f|--force", "deletes files that git does not know", "-n|--dry-run"),
    CommandFact(RiskKind.HISTORY, "git", "checkout -f|--force|--", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "checkout .|./|*/.|:/", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "checkout * .|./|:/", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "restore", _NO_WAY_BACK, "-S|--staged"),
    CommandFact(RiskKind.HISTORY, "git", "restore -W|--worktree", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "switch -f|--force|--discard-changes|-C", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "branch -D|-M|-f|--force", "removes or moves a branch that may not be merged"),
    CommandFact(RiskKind.HISTORY, "git", "branch -d|--delete --force|-f", "removes a branch that may not be merged"),
    CommandFact(RiskKind.HISTORY, "git", "tag -d|--delete|-f|--force", "removes or moves a tag"),
    CommandFact(RiskKind.HISTORY, "git", "stash drop|clear", "throws away stashed changes"),
    CommandFact(RiskKind.HISTORY, "git", "filter-branch|filter-repo|replace", "rewrites history", always_ask=True),
    CommandFact(RiskKind.HISTORY, "git-filter-repo|bfg", "", "rewrites history", always_ask=True),
    CommandFact(RiskKind.HISTORY, "git", "rebase -i|--interactive|--onto|--root|-x|--exec|~^HEAD|~^@", "rewrites commits that may be published"),
    CommandFact(RiskKind.HISTORY, "git", "reflog expire|delete", "removes the way back to lost commits", always_ask=True),
    CommandFact(RiskKind.HISTORY, "git", "gc --prune|--aggressive", "removes the way back to lost commits"),
    CommandFact(RiskKind.HISTORY, "git", "prune", "removes the way back to lost commits", "-n|--dry-run"),
    CommandFact(RiskKind.HISTORY, "git", "update-ref|symbolic-ref -d|--delete|--stdin", "removes a reference"),
    CommandFact(RiskKind.HISTORY, "git", "worktree remove -f|--force", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "submodule deinit -f|--force|--all", _NO_WAY_BACK),
    CommandFact(RiskKind.HISTORY, "git", "rm -f|--force", _NO_WAY_BACK, "--cached|-n|--dry-run"),
    CommandFact(RiskKind.OUTSIDE, "git", "config * * --global|--system", "changes git for every project", "--get|--get-all|--get-regexp|--list|-l"),
    CommandFact(RiskKind.OUTSIDE, "git", "config --unset|--unset-all|--edit|-e|--remove-section|--rename-section --global|--system", "changes git for every project"),
    CommandFact(RiskKind.HIDDEN_CODE, "git", f"~^(?i:(?:-c)?(?:alias\\.[^=]*=!|(?:{_GIT_RUNS})=))", _GIT_HIDDEN, always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "git", f"config * * ~^(?i:{_GIT_RUNS})$", _GIT_HIDDEN, "--get|--get-all", True),
    CommandFact(RiskKind.HIDDEN_CODE, "git", "config * ~^!", _GIT_HIDDEN, always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "git", "~^(?:--config-env|--exec-path=|ext::|--upload-pack=|--receive-pack=)", _GIT_HIDDEN, always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "git", "grep ~^(?:-\\w*O|--open-files-in-pager)", "makes git run a command", always_ask=True),
    # publishing
    CommandFact(RiskKind.OUTSIDE, "git", "apply --unsafe-paths", "changes files outside the project"),
    CommandFact(RiskKind.DELETE, "rsync", "~^--(?:delete|remove-source-files)", "deletes what the source does not have", "-n|--dry-run"),
    CommandFact(RiskKind.OUTSIDE, "cpio|pax", "~^-\\w*[ir]|^--extract", "unpacks over files that are there, wherever the archive names them"),
    CommandFact(RiskKind.HIDDEN_CODE, "git", "submodule add", "fetches code of another repository"),
    CommandFact(RiskKind.REMOTE, "kubectl|oc", "exec|cp|attach|port-forward|debug|run|drain|cordon|edit|patch|scale|rollout", "acts on a cluster", "status|history"),
    CommandFact(RiskKind.REMOTE, "nmap|masscan|zmap|hydra|medusa|nikto|sqlmap|gobuster|ffuf|john|hashcat|msfconsole|aircrack-ng|arpspoof|responder", "~.", "scans or attacks machines", always_ask=True),
    CommandFact(RiskKind.SYSTEM, "tcpdump|tshark|dumpcap|ettercap", "~.", "listens to the network", always_ask=True),
    CommandFact(RiskKind.SYSTEM, "ip", "~^(?:set|add|del|delete|flush|change|replace)$", "changes the network of the machine"),
    CommandFact(RiskKind.SENDING, "http.server|live-server|serve", "~^(?:--(?:bind|host)=)?(?:0\\.0\\.0\\.0|::)$", "shows the folder to every machine around"),
    CommandFact(RiskKind.EXHAUST, "fallocate|stress|stress-ng", "~.", "fills the disk or the machine"),
    CommandFact(RiskKind.REMOTE, "ssh-copy-id", "~.", "lets somebody log in to another machine", always_ask=True),
    CommandFact(RiskKind.PUBLISH, "git", "push", "sends commits to a remote", "-n|--dry-run"),
    CommandFact(RiskKind.PUBLISH, "git", "send-email|svn dcommit", "sends commits away"),
    CommandFact(RiskKind.PUBLISH, "npm|pnpm|yarn|bun", "publish|unpublish|deprecate|dist-tag|owner|access", "publishes a package", "--dry-run"),
    CommandFact(RiskKind.PUBLISH, "yarn", "npm publish|tag", "publishes a package", "--dry-run"),
    CommandFact(RiskKind.PUBLISH, "lerna|changeset|semantic-release|release-it|np|goreleaser", "publish|release|*", "publishes a release", "--dry-run|--snapshot init version status add"),
    CommandFact(RiskKind.PUBLISH, "twine", "upload", "publishes a package"),
    CommandFact(RiskKind.PUBLISH, "poetry|flit|hatch|uv|pdm|rye|maturin", "publish|upload", "publishes a package", "--dry-run"),
    CommandFact(RiskKind.PUBLISH, "cargo", "publish|yank|owner", "publishes a package", "--dry-run"),
    CommandFact(RiskKind.PUBLISH, "gem", "push|yank|owner", "publishes a package"),
    CommandFact(RiskKind.PUBLISH, "dotnet", "nuget push|delete", "publishes a package"),
    CommandFact(RiskKind.PUBLISH, "mvn|mvnw", "*deploy*|release:*", "publishes a package"),
    CommandFact(RiskKind.PUBLISH, "gradle|gradlew", "publish*|upload*", "publishes a package"),
    CommandFact(RiskKind.PUBLISH, "docker|podman|nerdctl|buildah", "push", "publishes an image"),
    CommandFact(RiskKind.PUBLISH, "docker|podman", "image|manifest push", "publishes an image"),
    CommandFact(RiskKind.PUBLISH, "docker|podman", "build|buildx --push", "publishes an image"),
    CommandFact(RiskKind.PUBLISH, "skopeo|crane|oras", "copy|push|delete", "publishes an image"),
    CommandFact(RiskKind.PUBLISH, "helm", "push", "publishes a chart"),
    CommandFact(RiskKind.PUBLISH, "vsce|ovsx", "publish|unpublish", "publishes an extension"),
    CommandFact(RiskKind.PUBLISH, "gh|hub|glab", "release create|edit|delete|upload|delete-asset", "changes a release that others see"),
    CommandFact(RiskKind.PUBLISH, "gh|hub|glab", "pr|mr merge|close|create|comment|review|edit|reopen|ready|approve", "changes a pull request that others see"),
    CommandFact(RiskKind.PUBLISH, "gh|hub|glab", "issue create|close|comment|edit|delete|transfer|reopen", "changes an issue that others see"),
    CommandFact(RiskKind.PUBLISH, "gh|hub|glab", "repo create|delete|edit|rename|archive|sync|fork", "changes a repository that others see", always_ask=True),
    CommandFact(RiskKind.PUBLISH, "gh|glab", "gist|snippet create|edit|delete", "publishes text"),
    CommandFact(RiskKind.PUBLISH, "gh|glab", "workflow|run|secret|variable|cache|ssh-key|gpg-key|label|ci run|rerun|cancel|delete|set|remove|add|enable|disable|create|trigger", "changes what runs or is kept at a host"),
    CommandFact(RiskKind.PUBLISH, "gh|glab", "api -X|--method|-f|-F|--field|--raw-field|--input", "changes something at a host", "~^(?:-X)?(?:GET|HEAD)$"),
    CommandFact(RiskKind.PUBLISH, "vercel|netlify|firebase|surge|wrangler|heroku|flyctl|fly|railway|serverless|sls|eb|cdk|pulumi|sst|amplify|cap|ansible-playbook|dokku", "deploy|publish|--prod|up|destroy|delete|remove|rollback|apps:destroy|pg:reset|promote|*:delete|*:destroy|*.yml|*.yaml", "changes what runs in production"),
    CommandFact(RiskKind.PUBLISH, "make|gmake|just|task|rake|invoke|inv|nox|tox", "deploy*|publish*|release*|upload*", "publishes, by its name", "-n|--dry-run"),
    CommandFact(RiskKind.PUBLISH, "npm|pnpm|yarn|bun", "run deploy*|publish*|release*", "publishes, by its name"),
    CommandFact(RiskKind.HIDDEN_CODE, "powershell*|pwsh*|cmd|cmd.exe|wsl|wsl.exe", "~.", "runs a line for another shell, which is not read here"),
    CommandFact(RiskKind.HIDDEN_CODE, "tar", "~^--(?:checkpoint-action=exec|to-command|rsh-command)", "makes tar run a command", always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "direnv", "allow|permit|exec", "lets a file of the folder run by itself", always_ask=True),
    CommandFact(RiskKind.LASTING, "npm|pnpm|yarn", "pkg set ~^scripts", "writes a script that runs later"),
    CommandFact(RiskKind.LASTING, "npm|pnpm|yarn", "set-script", "writes a script that runs later"),
    CommandFact(RiskKind.LASTING, "pre-commit|husky|lefthook", "install|init|add|init-templatedir", "makes git run something by itself"),
    CommandFact(RiskKind.HIDDEN_CODE, "env", "~^(?:-[A-Za-z0]*S|--split-string)", "runs a line that is one argument", always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "expect|autoexpect", "-c", "runs programs and types into them"),
    CommandFact(RiskKind.PRIVILEGES, "unshare|nsenter|chroot|runcon|setpriv|machinectl|systemd-run|capsh|bwrap", "~.", "runs in another view of the machine", always_ask=True),
    CommandFact(RiskKind.SECRETS, "gdb|lldb|strace|ltrace|reptyr|py-spy|perf|rbspy|pyrasite|cdb", "-p|--pid|-attach|--attach|attach|dump", "reads the memory of another process", always_ask=True),
    CommandFact(RiskKind.SECRETS, "gcore|procdump|memdump", "~.", "reads the memory of another process", always_ask=True),
    CommandFact(RiskKind.SECRETS, "compgen", "-v|-e", "lists every variable"),
    CommandFact(RiskKind.DELETE, "truncate", "-s|--size ~^(?:-s|--size=)?0$", "empties a file without a way back"),
    CommandFact(RiskKind.HIDDEN_CODE, "ssh|scp|sftp|rsync|git", "~(?i:ProxyCommand|LocalCommand|KnownHostsCommand|PKCS11Provider)", "makes ssh run a command", always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "ssh-keygen|ssh-add", "-D|-s", "loads a library"),
    CommandFact(RiskKind.PACKAGES, "dotnet", "tool install|update|restore", "installs a program"),
    CommandFact(RiskKind.PACKAGES, "code|codium|cursor", "--install-extension", "installs an extension"),
    CommandFact(RiskKind.PACKAGES, "gh", "extension|ext install|upgrade|exec", "installs an extension"),
    CommandFact(RiskKind.PACKAGES, "kubectl|helm|docker", "krew|plugin install|upgrade", "installs a plugin"),
    CommandFact(RiskKind.SYSTEM, "launchctl|loginctl|systemd-run|schtasks|sc", "~.", "changes what the system starts"),
    CommandFact(RiskKind.HIDDEN_CODE, "make|gmake", "~^-$", "runs rules that come through a pipe", always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "printf", "~^-v ~\\[[^\\]]*(?:\\$\\(|`)", "runs a command that is hidden in an index", always_ask=True),
    CommandFact(RiskKind.HIDDEN_CODE, "test|[|[[|read|let|declare|typeset|local|unset|export|mapfile|readarray", "~\\[[^\\]]*(?:\\$\\(|`)", "runs a command that is hidden in an index", always_ask=True),
    CommandFact(RiskKind.PUBLISH, "vercel|surge", "", "changes what runs in production", "dev build ls list logs login whoami env help --help --version"),
    # infrastructure
    CommandFact(RiskKind.REMOTE, "terraform|tofu|terragrunt", "apply|destroy|import|taint|untaint|force-unlock", "changes real infrastructure", always_ask=True),
    CommandFact(RiskKind.REMOTE, "terraform|tofu|terragrunt", "state rm|mv|push|replace-provider", "changes what is known of real infrastructure", always_ask=True),
    CommandFact(RiskKind.REMOTE, "terraform|tofu|terragrunt", "workspace delete", "changes what is known of real infrastructure", always_ask=True),
    CommandFact(RiskKind.REMOTE, "kubectl|oc|k", "delete|drain|replace", "removes things from a cluster", "~^--dry-run(?!=none)", True),
    CommandFact(RiskKind.REMOTE, "kubectl|oc|k", "apply|create|patch|edit|scale|cordon|uncordon|taint|annotate|label|set|run|expose|autoscale|cp", "changes a cluster", "~^--dry-run(?!=none)"),
    CommandFact(RiskKind.REMOTE, "kubectl|oc|k", "rollout restart|undo|pause|resume", "changes a cluster"),
    CommandFact(RiskKind.REMOTE, "helm", "install|upgrade|uninstall|delete|rollback", "changes a cluster", "--dry-run"),
    CommandFact(RiskKind.REMOTE, "aws", f"* {_CLOUD}", "removes things in the cloud", "--dryrun|--dry-run", True),
    CommandFact(RiskKind.REMOTE, "aws", "s3 cp|sync|mv", "copies to or from the cloud", "--dryrun"),
    CommandFact(RiskKind.REMOTE, "aws", "* create*|put*|update*|run*|start*|stop*|reboot*|modify*|attach*|detach*|invoke*|send*|publish*|deploy*", "changes things in the cloud", "--dryrun|--dry-run"),
    CommandFact(RiskKind.REMOTE, "gcloud|az|doctl|linode-cli|hcloud|oci|ibmcloud|scw|exo|vultr-cli", f"~^(?:{'|'.join(_CLOUD.replace('*', '').split('|'))}|create|update|deploy|start|stop|reset|set-iam-policy|add-iam-policy-binding|ssh|scp)$", "changes things in the cloud", always_ask=True),
    CommandFact(RiskKind.REMOTE, "gsutil|rclone|s3cmd|mc|azcopy", "cp|mv|rm|rsync|rb|mb|sync|copy|move|delete|purge|del|put|mirror|remove|deletefile", "copies to or removes from the cloud"),
    CommandFact(RiskKind.REMOTE, "ssh|mosh|sshpass|pdsh|ansible", "~.", "acts on another machine", "~^-V$", True),
    CommandFact(RiskKind.DELETE, "docker|podman|nerdctl", "rm|rmi|kill", "removes containers or images"),
    CommandFact(RiskKind.DELETE, "docker|podman|nerdctl", "system|volume|image|container|network|builder|buildx prune|rm|remove", "removes containers, images or volumes"),
    CommandFact(RiskKind.DELETE, "docker|podman|nerdctl", "compose down|rm -v|--volumes|--rmi", "removes volumes or images"),
    CommandFact(RiskKind.DELETE, "docker-compose|podman-compose", "down|rm -v|--volumes|--rmi", "removes volumes or images"),
    CommandFact(RiskKind.PRIVILEGES, "docker|podman|nerdctl", "run|create|exec --privileged", "gives a container the machine", always_ask=True),
    CommandFact(RiskKind.PRIVILEGES, "docker|podman|nerdctl", "run|create ~^(?:-v|--volume=?|--mount=?)?(?:.*(?:source|src)=)?(?:/|/etc|/root|/home|/var/run/docker\\.sock)(?:/?:|,|$)", "gives a container the machine's files", always_ask=True),
    CommandFact(RiskKind.DELETE, "vagrant|multipass|minikube|kind|k3d", "destroy|delete|purge", "removes a machine"),
    # databases
    CommandFact(RiskKind.DATABASE, "dropdb|dropuser|pg_resetwal|pg_dropcluster", "", "removes a database", always_ask=True),
    CommandFact(RiskKind.DATABASE, "mysqladmin|mariadb-admin", "drop|flush*|shutdown", "removes a database", always_ask=True),
    CommandFact(RiskKind.DATABASE, "pg_restore|mongorestore", "-c|--clean|--drop", "drops what it restores over"),
    CommandFact(RiskKind.DATABASE, "redis-cli|valkey-cli|keydb-cli", "~^(?i:flushall|flushdb|del|unlink|shutdown)$", "removes keys from a database"),
    CommandFact(RiskKind.DATABASE, "rails|rake|bin/rails", "db:drop*|db:reset*|db:purge*|db:truncate*|db:schema:load*|db:migrate:reset*|db:setup*", "removes a database"),
    CommandFact(RiskKind.DATABASE, "manage.py|django-admin|*manage.py", "flush|reset_db|sqlflush", "empties a database"),
    CommandFact(RiskKind.DATABASE, "manage.py|django-admin|*manage.py", "migrate * zero", "undoes every migration"),
    CommandFact(RiskKind.DATABASE, "prisma", "migrate reset", "empties a database"),
    CommandFact(RiskKind.DATABASE, "prisma", "db push --force-reset|--accept-data-loss", "empties a database"),
    CommandFact(RiskKind.DATABASE, "alembic|flask|knex|sequelize|typeorm|dbmate|goose|migrate", "~^(?:downgrade|rollback|down|drop|reset|db:drop|db:migrate:undo.*|schema:drop|migrate:rollback)$", "undoes migrations, with what they hold"),
    CommandFact(RiskKind.DATABASE, "artisan|*artisan", "migrate:fresh|migrate:reset|migrate:refresh|db:wipe|migrate:rollback", "empties a database"),
    # sending away
    CommandFact(RiskKind.SENDING, "scp|sftp|ftp|lftp|tftp|croc|magic-wormhole|wormhole|ngrok|cloudflared|localtunnel|bore|transfer|pastebinit|mail|mailx|sendmail|mutt|swaks", "~.", "can send files to another machine"),
    CommandFact(RiskKind.SENDING, "nc|ncat|netcat|socat|telnet", "~.", "opens a connection through which anything can go", "-z"),
    CommandFact(RiskKind.SENDING, "rsync", "~^(?!-)[^/]*[^/\\\\]:", "copies to or from another machine"),
    # installed software
    CommandFact(RiskKind.PACKAGES, "apt|apt-get|aptitude|dnf|yum|zypper|apk|brew|port|snap|flatpak|choco|winget|scoop|pkg|nix-env|emerge|conda|mamba|micromamba|microdnf|tdnf", "install|remove|purge|upgrade|dist-upgrade|full-upgrade|autoremove|add|del|delete|uninstall|reinstall|update|downgrade|in|rm|tap|dup", "changes software of the machine", "--dry-run|--simulate|--just-print"),
    CommandFact(RiskKind.PACKAGES, "pacman|yay|paru", "~^-[SRU]", "changes software of the machine", "~^-S[si]"),
    CommandFact(RiskKind.PACKAGES, "dpkg|rpm", "-i|-r|-P|-e|-U|--install|--remove|--purge|--erase|--upgrade", "changes software of the machine", "-q|-l|-L|-s"),
    CommandFact(RiskKind.PACKAGES, "npm|pnpm|yarn|bun", "install|i|add|uninstall|remove|rm|update|up|link -g|--global|~^--location=global$", "changes software for every project"),
    CommandFact(RiskKind.PACKAGES, "yarn", "global add|remove|upgrade", "changes software for every project"),
    CommandFact(RiskKind.PACKAGES, "cargo", "install|uninstall", "changes software for every project", "~^--(?:root|path)"),
    CommandFact(RiskKind.PACKAGES, "gem|pipx|dart|luarocks|cpan|cpanm|opam|raco|ghcup|rustup|sdk|asdf|mise|nvm|pyenv|rbenv", "install|uninstall|update|upgrade|remove|self|inject|reinstall|use", "changes software for every project", "~^--(?:root|path|local|user-install|prefix)"),
    CommandFact(RiskKind.PACKAGES, "go", "install", "puts a program among the user's own", "~^\\./"),
    CommandFact(RiskKind.PACKAGES, "uv", "tool install|uninstall|upgrade", "changes software for every project"),
    CommandFact(RiskKind.PACKAGES, "uv", "pip install|uninstall|sync --system|--break-system-packages", "changes software of the machine"),
    CommandFact(RiskKind.PACKAGES, "composer", "global", "changes software for every project"),
    CommandFact(RiskKind.PACKAGES, "update-alternatives|ldconfig|dpkg-reconfigure|add-apt-repository|apt-key|xcode-select|softwareupdate", "~.", "changes software of the machine", "--list|--display -p"),
    # settings of the person
    CommandFact(RiskKind.OUTSIDE, "defaults", "write|delete", "changes settings of the person"),
    CommandFact(RiskKind.OUTSIDE, "gsettings|dconf", "set|write|reset", "changes settings of the person"),
    CommandFact(RiskKind.OUTSIDE, "npm|pnpm|yarn", "config set|delete", "changes settings for every project", "~^--location=project"),
    CommandFact(RiskKind.OUTSIDE, "pip|pip3", "config set|unset|edit", "changes settings for every project"),
    # secrets
    CommandFact(RiskKind.SECRETS, "security", "find-*-password|dump-keychain|export", "reads passwords", always_ask=True),
    CommandFact(RiskKind.SECRETS, "pass|gopass|op|bw|lpass|secret-tool|vault|keyring", "show|get|read|list|item|document|inject|lookup|kv|ls|export|search", "reads or changes passwords", always_ask=True),
    CommandFact(RiskKind.SECRETS, "gpg|gpg2", "~^--(?:export-secret|decrypt)|^-d$", "uses secret keys"),
    CommandFact(RiskKind.SECRETS, "gh|glab", "auth token", "shows a token"),
    CommandFact(RiskKind.SECRETS, "gcloud|az", "auth|account print-*|get-access-token", "shows a token"),
    CommandFact(RiskKind.SECRETS, "aws", "configure get|export-credentials", "shows a key"),
    CommandFact(RiskKind.SECRETS, "aws", "secretsmanager|ssm get-*", "reads secrets"),
    CommandFact(RiskKind.SECRETS, "kubectl|oc", "get|describe secret*|secrets/*", "reads secrets", "~^-o=?name$"),
    CommandFact(RiskKind.SECRETS, "heroku|netlify|firebase|vercel|railway|flyctl|fly|doppler|infisical|chamber|teller", "config*|env*|functions:config:get|variables|secrets*|export|run", "shows secret settings"),
    CommandFact(RiskKind.SECRETS, "sops|ansible-vault|age|rage|blackbox_cat|git-crypt|keyctl", "~^(?:-d|--decrypt|decrypt|view|edit|unlock|exec-env|print|read|pipe)$", "decrypts secrets"),
    CommandFact(RiskKind.SECRETS, "docker|podman|nerdctl", "inspect ~\\.Env\\b", "shows variables of a container"),
    CommandFact(RiskKind.SECRETS, "dotenv", "list|get", "shows secret settings"),
    CommandFact(RiskKind.SECRETS, "*", "~169\\.254\\.169\\.254|metadata\\.google\\.internal|100\\.100\\.100\\.200|fd00:ec2::254", "asks the cloud for the keys of this machine", always_ask=True),
    CommandFact(RiskKind.SYSTEM, "batch|setenforce|aa-disable|aa-teardown|auditctl|insmod|rmmod|kexec", "", "changes how the system runs", always_ask=True),
    CommandFact(RiskKind.SECRETS, "npm|yarn|pnpm", "token", "shows or changes tokens"),
    CommandFact(RiskKind.SECRETS, "npm|pnpm", "config get ~_auth|token|password", "shows a token"),
    CommandFact(RiskKind.SECRETS, "git", "credential-store|credential-cache|credential-osxkeychain get", "shows a password"),
    CommandFact(RiskKind.SECRETS, "git", "credential fill|get", "shows a password"),
    CommandFact(RiskKind.SECRETS, "jq|yq|gojq", "~(?:^|[\\s|(,])(?:env(?:\\s*(?:$|[|,)])|\\.)|\\$ENV|strenv|\\$__prog)", "shows every variable, with the keys among them"),
    CommandFact(RiskKind.SECRETS, "docker", "login", "takes a password", "--help"),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class CodeFact:
    """Something dangerous in code or SQL on the command line."""

    kind: RiskKind
    pattern: re.Pattern[str]
    reason: str
    always_ask: bool = False


def _code(kind: RiskKind, pattern: str, reason: str, *, always_ask: bool = False) -> CodeFact:
    return CodeFact(kind, re.compile(pattern, re.IGNORECASE | re.DOTALL), reason, always_ask)


_ENVIRONMENT = (
    r"(?<![\w-])environb?(?![\w-])|\bgetenvb?\b|\bprocess\s*\.\s*env\b|\bprocess\s*\[|(?<![\w.'\"-])ENV\b(?!\s*=)|[%$]ENV\b|\bENVIRON\b|"
    r"\bDeno\.env\b|\bBun\.env\b|\bimport\.meta\.env\b|\$_(?:ENV|SERVER)\b|\bgetenv\s*\(|\bSystem\.get_?env\b|\bget_env\b|169\.254\.169\.254|metadata\.google\.internal|\bSys\.getenv\b|\bphpinfo\b"
)
"""Ways to the environment in all languages."""
_HARMLESS_NAMES = (
    r"(?:PATH|HOME|PWD|USER|LOGNAME|SHELL|LANG|LC_\w+|TERM|TZ|TMPDIR|CI|DEBUG|NODE_ENV|RAILS_ENV|RACK_ENV|APP_ENV|ENV|EDITOR|"
    r"VIRTUAL_ENV|CONDA_PREFIX|PYTHON\w+|DJANGO_SETTINGS_MODULE|GOPATH|JAVA_HOME|PORT|HOST|HOSTNAME|COLUMNS|LINES|NO_COLOR)"
)
HARMLESS_READ = (
    rf"(?:\.get)?\s*[\[({{.]?\s*[\[({{.]\s*['\"]?{_HARMLESS_NAMES}\b|\s*\[[^\]]{{1,200}}\]\s*=(?!=)|\.\w+\s*=(?!=)|"
    r"\.(?:setdefault|update|pop)\s*\("
)
"""A variable that holds no secret is read, or one is set."""

# fmt: off
CODE_FACTS: tuple[CodeFact, ...] = (
    _code(RiskKind.DELETE, r"\brmtree\b|\brm_?rf?!?\b\s*[('\"]|\bDeno\.remove|\bFile\.rm|delete-directory|\brm\(.{0,200}recursive|FileUtils\.(?:rm|remove)|remove_tree|\brimraf\b", "the code deletes whole folders", always_ask=True),
    _code(RiskKind.DELETE, r"\bos\.(?:remove|unlink|rmdir|removedirs)\b|\.unlink\s*\(|\.rmdir\s*\(|\bunlink(?:Sync)?\b|\brm(?:dir)?Sync\b|\bfs(?:\.promises)?\.rm\b|\bFile\.(?:delete|unlink)\b|\bDir\.(?:delete|rmdir)\b|\bsend2trash\b", "the code deletes files"),
    _code(RiskKind.HIDDEN_CODE, r"\bos\.(?:system|popen|exec[lv]p?e?|spawn\w*|posix_spawn\w*)\b|\bCORE::(?:GLOBAL::)?(?:system|exec|readpipe)\b|\bsubprocess\b|\bpty\.spawn|\bos\.execute\b|\bos:cmd\b|\.execute\s*\(\s*\)|\bexec\s+(?:sudo|rm|(?:ba|z|da)?sh)\b|shell-command|call-process|\bchild_process\b|\bsystem\s*[('\"]|\bIO\.popen|\bio\.popen|\bproc_open\b|\bOpen3\b|\bKernel\.(?:exec|spawn|system)|\bspawn\s*\(|(?<![\w.])popen\s*\(|\bDeno\.(?:run|Command)|\bBun\.(?:\$|spawn)|\bposix_spawn|\bopen\s*\(?[^;]{0,200}[\"'][^\"']{0,200}\|[\"']|\bexec\s*[\"'(]|\bshell_exec\b|\bpassthru\b|\bdo (?:shell )?script\b", "the code runs other commands"),
    _code(RiskKind.HIDDEN_CODE, r"\b(?:exec|eval|compile|Function)\s*\([^)]{0,500}(?:b64|base64|decode|fromhex|urlopen|requests\.|atob|zlib|marshal|Buffer\.from)", "the code runs code that is not to be seen here", always_ask=True),
    _code(RiskKind.HIDDEN_CODE, r"__import__\s*\(|\bgetattr\s*\(\s*(?:os|sys|builtins|__builtins__|globals)\b|\bimportlib\.import_module\b|\b__builtins__\b|\bimport\s+(?:os|subprocess|shutil|pty|builtins)\s+as\b|\b(?:globals|vars|locals)\(\)\s*\[|\bprocess\.(?:binding|mainModule)|\bglobalThis\s*\[|\brequire\s*\(\s*[^'\"`\s)]|\bctypes\b", "the code hides what it calls"),
    _code(RiskKind.HIDDEN_CODE, r"\bfrom\s+os\s+import\b[^;\n]{0,300}(?:\bsystem\b|\bpopen\b|\bexec\w*|\bspawn\w*|\bposix_spawn|\*)|\bfrom\s+pty\s+import\b", "the code runs other commands"),
    _code(RiskKind.HIDDEN_CODE, r"(?<![\w.])(?:eval|exec)\s*\(|\bnew\s+Function\s*\(|\brunpy\b|\bloadstring\b|\bdofile\b|\binstance_eval\b", "the code runs text as code"),
    _code(RiskKind.REMOTE_CODE, r"\b(?:exec|eval)\s*\(.{0,1000}?(?:urlopen|requests\.get|httpx\.get|urllib)", "the code runs what it downloads", always_ask=True),
    _code(RiskKind.SENDING, r"\brequests\.(?:post|put|patch|delete)\b|\bhttpx\.(?:post|put|patch|delete)\b|\bsocket\.(?:socket|create_connection)\b|\bsmtplib\b|\bmethod\s*[:=]\s*['\"](?:POST|PUT|DELETE)", "the code sends data away"),
    _code(RiskKind.SECRETS, rf"(?:{_ENVIRONMENT})(?!{HARMLESS_READ})", "the code reads the environment, with the keys in it"),
    _code(RiskKind.SECRETS, r"\.ssh/|\.aws/credentials|(?<![\w.])\.env\b(?!\.)|/etc/shadow|\bid_(?:rsa|ed25519)\b|\bdotenv\b|\.netrc\b|\.npmrc\b|\.pypirc\b|\.git-credentials|\.docker/config|\.kube/config|\.clew/config", "the code reads secrets"),
    _code(RiskKind.OUTSIDE, r"['\"`](?:~/|/home/|/root/|/Users/)|\bexpanduser\b|\bPath\.home\(|\bhomedir\s*\(", "the code reads or writes in the home folder"),
    _code(RiskKind.SECRETS, r"/proc/(?!cpuinfo|meminfo|version|loadavg|uptime|stat\b|mounts|net/|sys/|self/(?:status|stat|statm|cgroup|limits|maps)\b)", "the code reads what the system knows of processes"),
    _code(RiskKind.OUTSIDE, r"open\s*\(\s*['\"](?:/(?!tmp/|dev/null)|~)[^'\"]*['\"]\s*,\s*['\"][wax]|/etc/(?:passwd|sudoers|cron)|\.(?:bashrc|zshrc|profile|bash_profile)\b", "the code writes outside the project"),
    _code(RiskKind.PERMISSIONS, r"\bos\.(?:chmod|chown)\b|\bset[ug]id\b", "the code changes permissions"),
    _code(RiskKind.SYSTEM, r"\bos\.(?:kill|killpg|reboot)\b|\bprocess\.kill\b|\bos\.fork\b", "the code ends processes or multiplies itself"),
)
SQL_FACTS: tuple[CodeFact, ...] = (
    _code(RiskKind.DATABASE, r"\bdrop\s+(?:table|database|schema|view|materialized|index|keyspace|user|role|column|type|extension|owned|sequence)\b", "drops a part of the database", always_ask=True),
    _code(RiskKind.DATABASE, r"\btruncate\b", "empties tables", always_ask=True),
    _code(RiskKind.DATABASE, r"\bdelete\s+from\s+(?:(?!\bwhere\b)[^;])*(?:;|\Z)", "deletes every row: there is no WHERE", always_ask=True),
    _code(RiskKind.DATABASE, r"\bdelete\s+from\b", "deletes rows"),
    _code(RiskKind.DATABASE, r"\bupdate\s+[\w.\"`]+\s+set\s+(?:(?!\bwhere\b)[^;])*(?:;|\Z)", "changes every row: there is no WHERE", always_ask=True),
    _code(RiskKind.DATABASE, r"\balter\s+table\b.{0,2000}?\bdrop\b", "drops a part of a table", always_ask=True),
    _code(RiskKind.DATABASE, r"\b(?:drop(?:Database|Collection)?|deleteMany|remove)\s*\(", "removes data", always_ask=True),
    _code(RiskKind.DATABASE, r"\b(?:flushall|flushdb)\b", "removes every key", always_ask=True),
    _code(RiskKind.PRIVILEGES, r"\bgrant\s+all\b|\balter\s+(?:user|role)\b", "changes rights in the database"),
    _code(RiskKind.OUTSIDE, r"\b(?:writefile|load_extension|edit|fts3_tokenizer|lo_import|lo_export|pg_read_file|pg_write_file|load_file)\s*\(|\binto\s+(?:out|dump)file\b|\bload\s+data\s+(?:local\s+)?infile\b", "reads or writes files from within the database"),
    _code(RiskKind.HIDDEN_CODE, r"(?:^|;)\s*system\s+\S|^\s*\\!|\bcopy\b.{0,500}?\bprogram\b|^\s*\.(?:shell|system)\b|\bxp_cmdshell\b", "runs a command from within the database"),
)
# fmt: on
SQL_CLIENTS = frozenset(
    "psql mysql mariadb sqlite3 sqlite duckdb clickhouse-client clickhouse cqlsh sqlcmd sqlplus mongosh mongo "
    "redis-cli pgcli mycli usql bq snowsql cockroach turso wrangler".split()
)
