#!/usr/bin/env bash
# The packages of dist/ in a clean Debian 12 and 13, as root (make test-packages): install,
# upgrade, downgrade of the program, removal, purge; then the .rpm of the same. At the end, on a
# Debian 13 with a running Slurm, the commands of docs/install.md, up to the first written
# priority, those of other pages that want a machine of their own, and the unit: under a real systemd, where this machine can boot one beside its own.
# What runs there changes nothing in the roots, which are kept in the cache folder. SUITES selects.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin:/sbin
cache=${XDG_CACHE_HOME:-$HOME/.cache}/slurmprio

say() { echo "$suite: $*"; }
die() { echo "packages.sh: $suite: $*" >&2; exit 1; }

# wants FILE MODE OWNER
wants() { [ "$(stat -c '%a %U' "$1")" = "$2 $3" ] || die "$1 is $(stat -c '%a %U' "$1"), not $2 $3"; }

# says WORDS COMMAND...: the command's output has them, however it ends.
says() {
  local words=$1 text
  shift
  text=$("$@" 2>&1) || true
  [[ $text == *"$words"* ]] || die "$* does not say \"$words\": $text"
}

# newer packs a .deb again as a later version.
newer() {
  local tree=/tmp/again file
  for file in "$@"; do
    dpkg-deb -R "$file" $tree
    sed -Ei 's/^(Version: .*)-1$/\1.later-1/; s/^(Depends: .*slurmprio-client \(= [^)]*)-1\)/\1.later-1)/' $tree/DEBIAN/control
    dpkg-deb -b $tree "/tmp/later-$(basename "$file")" >/dev/null
    rm -rf $tree
  done
}

installed() {
  local unit=/usr/lib/systemd/system/priod.service
  wants /usr/bin/priod 755 root
  wants /usr/bin/sbatchwrap 755 root
  wants $unit 644 root
  wants /usr/lib/systemd/system/priod-value.timer 644 root
  says "ExecStart=/usr/bin/priod report value --refresh" cat /usr/lib/systemd/system/priod-value.service
  wants /etc/slurmprio/priod.toml.example 644 root
  wants /var/lib/priod 750 priod
  for file in man/man1/sbatchwrap.1 man/man8/priod.8 bash-completion/completions/priod zsh/site-functions/_priod \
    fish/vendor_completions.d/priod.fish slurmprio/grafana/priod.json slurmprio/prometheus/priod.rules.yml slurmprio/slurm/job_submit.lua; do
    wants "/usr/share/$file" 644 root
  done
  # The page that an alert names is there, with its section.
  for page in $(sed -n 's/^ *runbook: \(.*\)#.*/\1/p' /usr/share/slurmprio/prometheus/priod.rules.yml | sort -u); do
    wants "$page" 644 root
    says "### PriodAbsent" cat "$page"
  done
  says alerts.md sed -n '/runbook/p' /usr/share/slurmprio/prometheus/priod.rules.yml
  says "priod $VERSION" priod --version
  says "no sbatch" sbatchwrap --help
  printf '#!/bin/sh\necho an sbatch\n' >/usr/local/bin/sbatch
  chmod 755 /usr/local/bin/sbatch
  says --prio-type sbatchwrap --help
  rm /usr/local/bin/sbatch
  says "ExecStart=/usr/bin/priod run" cat $unit
  systemd-analyze security --offline=true --threshold=20 $unit >/dev/null || die "$unit: exposure above 2.0"
  # shellcheck disable=SC2016
  says evictions bash -c 'source /usr/share/bash-completion/completions/priod; COMP_WORDS=(priod evi) COMP_CWORD=1; _priod priod; echo "${COMPREPLY[@]}"'
  # shellcheck disable=SC2016
  says "--gres --prio-type" bash -c '_sbatch() { COMPREPLY=(--gres); }; source /usr/share/bash-completion/completions/sbatchwrap; COMP_WORDS=(sbatchwrap --prio-t) COMP_CWORD=1; _sbatchwrap sbatchwrap; echo "${COMPREPLY[@]}"'
  [ ! -e /etc/systemd/system/multi-user.target.wants/priod.service ] || die "priod was enabled unasked"
  [ ! -e /etc/systemd/system/timers.target.wants/priod-value.timer ] || die "priod-value.timer was enabled unasked"
}

# used is a site that has its configuration and state.
used() {
  cp /etc/slurmprio/priod.toml.example /etc/slurmprio/priod.toml
  echo "# ours" | tee -a /etc/slurmprio/priod.toml >>/etc/slurmprio/priod.toml.example
  echo '{"write":{"job":"1","lever":"Nice"}}' >/var/lib/priod/journal.jsonl
  chown priod: /var/lib/priod/journal.jsonl
}

kept() {
  says "# ours" tail -n 1 /etc/slurmprio/priod.toml
  wants /var/lib/priod/journal.jsonl 644 priod
}

debs() {
  export DEBIAN_FRONTEND=noninteractive
  dpkg -i /dist/slurmprio-client_*.deb >/dev/null
  says "priod $VERSION" priod --version
  says "nothing was started" dpkg -i /dist/slurmprio_*.deb
  installed
  say "installed"
  used
  newer /dist/*.deb
  dpkg -i /tmp/later-*.deb </dev/null >/tmp/log 2>&1 || die "$(cat /tmp/log)"
  says .later- dpkg -s slurmprio
  kept
  says "# ours" tail -n 1 /etc/slurmprio/priod.toml.example
  says "priod $VERSION" priod --version
  say "upgraded: configuration and state as they were"
  cp /newer.db /var/lib/priod/priod.db
  dpkg -i /dist/*.deb </dev/null >/tmp/log 2>&1 || die "$(cat /tmp/log)"
  says "written by a newer priod (schema 99" priod report history
  kept
  say "downgraded: the database of a newer priod is refused"
  says "priod reset" dpkg -r slurmprio
  [ ! -e /usr/lib/systemd/system/priod.service ] || die "removed, and the unit is there"
  kept
  say "removed: priod reset is named, configuration and state stay"
  says "journal.jsonl stays" dpkg -P slurmprio
  wants /var/lib/priod/journal.jsonl 644 priod
  [ "$(ls -A /etc/slurmprio)" = hold ] && [ ! -e /var/lib/priod/priod.db ] || die "purged, and there is $(ls -d /etc/slurmprio/* /var/lib/priod/*)" # the client's
  dpkg -i /dist/slurmprio_*.deb >/dev/null 2>&1
  : >/var/lib/priod/journal.jsonl
  dpkg -P slurmprio slurmprio-client >/dev/null 2>&1
  [ ! -e /var/lib/priod ] && [ ! -e /usr/bin/priod ] && [ ! -e /etc/slurmprio ] || die "purged, and there is $(ls -d /var/lib/priod /usr/bin/priod /etc/slurmprio/*)"
  say "purged: all is gone; a journal of what reset has not taken back stays"
}

rpms() {
  local rpm="rpm --nodeps"
  ! rpm --force-debian --version >/dev/null 2>&1 || rpm="$rpm --force-debian" # Debian 12's refuses without
  says "nothing was started" $rpm -i /dist/*.rpm
  installed
  used
  says "" $rpm -U --replacepkgs /dist/*.rpm
  kept
  says "# ours" tail -n 1 /etc/slurmprio/priod.toml.example
  says "priod reset" $rpm -e slurmprio
  [ ! -e /usr/lib/systemd/system/priod.service ] || die "removed, and the unit is there"
  kept
  $rpm -e slurmprio-client 2>/dev/null
  [ ! -e /usr/bin/priod ] || die "removed, and priod is there"
  say "the same by .rpm"
}

# commands prints what the blocks of commands below a heading of a page hold.
commands() {
  awk -v heading="$2" '/^```/ { block = !block && on && $0 == "```sh"; next } block { print }
    !block && /^#/ { sub(/^#+ /, ""); on = $0 == heading }' "/$1"
}

# does runs such commands as they stand there.
does() {
  local line count=0
  while read -r line; do
    count=$((count + 1)) line=${line//_amd64/}
    [ -d /run/systemd/system ] || line=${line/ --now/}
    bash -e -c "$line" </dev/null >/tmp/log 2>&1 || die "$line: $(cat /tmp/log)"
  done
  [ $count -ge "$1" ] && [ $count -le "$2" ] || die "$count commands, and not $1 to $2"
}

# first runs the commands of docs/install.md on a cluster whose GPUs are all in use, and some of other pages.
first() {
  mkdir -p /etc/slurm
  ln -sf "$SLURM_CONF" /etc/slurm/slurm.conf
  unset SLURM_CONF
  cd /dist
  for _ in 1 2 3 4 5 6 7 8; do sbatch --output=/dev/null --gres=gpu:4 --wrap "sleep 600" >/dev/null; done
  does 5 8 < <(commands docs/install.md "Install in ten minutes")
  [ "$(sprio --noheader --format=%S | awk '$1 > 0' | wc -l)" -eq 1 ] || die "no priority was written: $(sprio --format='%i %S')"
  says enabled systemctl is-enabled priod
  say "the first written priority after $(commands docs/install.md "Install in ten minutes" | wc -l) commands"
  does 1 1 < <(commands docs/features/hold.md "The hold: jobs that would start before priod sees them")
  says --begin=now+20 sbatchwrap --prio-print --prio-speed a100:1 --gres=gpu:1 --wrap true
  rm /etc/slurmprio/hold
  does 2 5 < <(commands docs/reference/sbatchwrap.md "In sbatch's place")
  says prio:type=te /usr/bin/sbatch --prio-print --prio-type te --wrap true
  does 2 3 < <(commands docs/removal.md sbatch)
  says slurm-wlm /usr/bin/sbatch --version
  say "sbatchwrap was in the place of sbatch, and is not any more"
  [ ! -d /run/systemd/system ] || unit
}

# cycles waits until the running daemon has read Slurm.
cycles() {
  local log
  for _ in $(seq 60); do
    log=$(journalctl --quiet --no-pager _PID="$(systemctl show --value --property=MainPID priod)")
    [[ $log == *ERROR* ]] && die "$log"
    [[ $log != *started:* ]] || [ -z "$(find /var/lib/priod/priod.db* -newer /tmp/before)" ] || return 0
    sleep 0.5
  done
  die "the unit does nothing: $(systemctl status --no-pager priod; echo "$log")"
}

# unit is the life of priod.service under systemd: it runs, reloads, is upgraded, and ends.
unit() {
  local pid
  touch /tmp/before
  cycles
  systemctl reload priod
  systemctl is-active --quiet priod || die "$(systemctl status --no-pager priod)"
  pid=$(systemctl show --value --property=MainPID priod)
  newer /dist/*.deb
  touch /tmp/before
  dpkg -i /tmp/later-*.deb </dev/null >/tmp/log 2>&1 || die "$(cat /tmp/log)"
  [ "$pid" != "$(systemctl show --value --property=MainPID priod)" ] || die "upgraded, and the old priod runs"
  cycles
  touch /tmp/before
  does 3 3 < <(commands docs/features/failures.md Output)
  cycles
  [ "$(systemctl show --value --property=User priod)" = root ] || die "output.conf does not let priod run as root"
  rm -r /etc/systemd/system/priod.service.d
  systemctl daemon-reload
  touch /tmp/before
  systemctl restart priod # the state is the user's again
  cycles
  does 4 5 < <(commands docs/removal.md Removal)
  says success systemctl show --value --property=Result priod
  [ "$(sprio --noheader --format=%S | awk '$1 > 0' | wc -l)" -eq 0 ] || die "reset left a priority: $(sprio --format='%i %S')"
  does 2 2 < <(commands docs/removal.md "The packages")
  [ ! -e /usr/bin/priod ] && [ ! -e /etc/slurmprio ] || die "purged, and there is $(ls -d /usr/bin/priod /etc/slurmprio/*)"
  say "the unit ran under systemd $(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p'): reloaded, upgraded, stopped, its priorities taken back, and removed"
}

# boot makes systemd the first process of the copy, which runs what cluster does, and ends.
boot() {
  local copy=$1 name
  mount -t tmpfs tmpfs "$copy/run"
  mount -t tmpfs tmpfs "$copy/dev"
  for name in null zero full random urandom tty; do
    : >"$copy/dev/$name"
    mount --bind "/dev/$name" "$copy/dev/$name"
  done
  mkdir "$copy/dev/pts" "$copy/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$copy/dev/pts"
  mount -t tmpfs -o mode=1777 tmpfs "$copy/dev/shm"
  ln -s pts/ptmx "$copy/dev/ptmx"
  ln -s /proc/self/fd "$copy/dev/fd"
  : >"$copy/result"
  mount --bind "$result" "$copy/result"
  cat >"$copy/etc/systemd/system/packages.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=HOME=/root VERSION=$VERSION suite=$suite
ExecStart=/bin/bash /packages.sh cluster
ExecStopPost=/bin/sh -c 'echo "ended \$EXIT_STATUS"; systemctl --no-block poweroff'
StandardOutput=append:/result
StandardError=append:/result
UNIT
  mkdir -p "$copy/etc/systemd/system/default.target.wants"
  ln -s /etc/systemd/system/packages.service "$copy/etc/systemd/system/default.target.wants/"
  export container=other
  # Its control groups begin below one of its own.
  mount -t cgroup2 cgroup2 "$copy/sys/fs/cgroup" && mkdir "$copy/sys/fs/cgroup/$groups" &&
    echo $$ >"$copy/sys/fs/cgroup/$groups/cgroup.procs" && umount "$copy/sys/fs/cgroup" || exit 1
  # shellcheck disable=SC2016
  exec unshare --cgroup sh -c 'mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup" && exec chroot "$0" /lib/systemd/systemd --system --unit=default.target' "$copy"
}

# inside works on a copy of a root in memory.
inside() {
  local copy=/tmp/packages arch rpm root=$1 act=$2
  arch=$(dpkg --print-architecture)
  rpm=$(uname -m)
  mount -t tmpfs tmpfs /tmp -o size=1g
  mkdir -p /tmp/up /tmp/work $copy
  mount -t overlay overlay -o "lowerdir=$cache/$root,upperdir=/tmp/up,workdir=/tmp/work" $copy
  mkdir $copy/dist
  cp dist/*_"$arch".deb dist/*."$rpm".rpm $copy/dist/
  cp -r "$0" docs $copy/
  (cd / && python3 - "$copy/newer.db") <<'PY' # a checkout below /tmp is covered by now
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("create table goose_db_version (id integer primary key, version_id integer not null, is_applied integer not null, tstamp timestamp default (datetime('now')))")
db.execute("insert into goose_db_version (version_id, is_applied) values (0, 1), (99, 1)")
db.commit()
PY
  rm -f $copy/etc/dpkg/dpkg.cfg.d/* # root.sh leaves man pages out
  mount -t proc proc $copy/proc
  mount --bind /sys $copy/sys
  { printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)"; cat /etc/hosts; } >$copy/etc/hosts # srun wants this machine's own name
  cp "$lab" $copy/lab
  export VERSION suite
  [ "$act" != boot ] || boot $copy
  mount --rbind /dev $copy/dev
  exec chroot $copy bash /packages.sh "$act"
}

case ${1:-} in
  inside) inside "$2" "$3" ;;
  there) umask 022; debs; rpms; exit ;;
  cluster) umask 022; exec /lab run --dir /srv/lab -- bash /packages.sh first ;;
  first) first; exit ;;
esac
if why=$(tests/root.sh unable); then
  printf '\n*** NOT TESTED: %s ***\n\n' "$why" >&2
  exit 1
fi
file=$(echo dist/slurmprio-*-linux-*.tar.gz)
file=${file%% *}
VERSION=${file#dist/slurmprio-}
VERSION=${VERSION%-linux-*}
export VERSION
(cd dist && sha256sum --quiet --check SHA256SUMS)
mkdir -p "$cache"
lab=$(mktemp -p "$cache") result=$(mktemp -p "$cache") # not below /tmp, which inside covers
trap 'rm -f "$lab" "$result"' EXIT
${GO:-go} build -o "$lab" ./tests/lab/cmd/lab
export lab result suite groups=slurmprio-packages-$$
enter() { unshare --mount --propagation=private --pid --uts --ipc --fork --kill-child -- "$0" inside "$@"; }
for suite in ${SUITES:-bookworm trixie}; do
  ROOTS=package-roots ROOT_PACKAGES=systemd,rpm,bash tests/root.sh build "$suite"
  enter "package-roots/$suite" there
done
suite=trixie
tests/root.sh build $suite
enter roots/$suite boot || true # systemd ends the namespace as it would a machine
# shellcheck disable=SC2016
unshare --mount --propagation=private sh -c 'mount -t cgroup2 cgroup2 /mnt && [ ! -d "/mnt/$groups" ] || find "/mnt/$groups" -depth -type d -exec rmdir {} +' || true
if [ -s "$result" ]; then
  grep -v '^ended' "$result" || true
  grep -qx 'ended 0' "$result"
else
  printf '\n*** NOT TESTED: no systemd boots on this machine beside its own ***\n\n' >&2
  enter roots/$suite cluster
fi
