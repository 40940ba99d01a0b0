#!/usr/bin/env bash
# The packages of dist/ in a clean Debian 12 and 13, as root (make test-packages): install,
# upgrade, downgrade of the program, removal, purge; then the .rpm of the same. At the end, on a
# Debian 13 with a running Slurm, the commands of docs/install.md, up to the first written
# priority. What runs there changes nothing in the roots, which are kept in the cache folder.
# SUITES selects.
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
  wants /etc/slurmprio/priod.toml.example 644 root
  wants /var/lib/priod 750 priod
  for file in man/man1/sbatchwrap.1 man/man8/priod.8 bash-completion/completions/priod zsh/site-functions/_priod \
    fish/vendor_completions.d/priod.fish slurmprio/grafana/priod.json slurmprio/prometheus/priod.rules.yml; do
    wants "/usr/share/$file" 644 root
  done
  says "priod $VERSION" priod version
  says "no sbatch" sbatchwrap --help
  printf '#!/bin/sh\necho an sbatch\n' >/usr/local/bin/sbatch
  chmod 755 /usr/local/bin/sbatch
  says --prio-type sbatchwrap --help
  rm /usr/local/bin/sbatch
  says "ExecStart=/usr/bin/priod run" cat $unit
  systemd-analyze security --offline=true --threshold=20 $unit >/dev/null || die "$unit: exposure above 2.0"
  # shellcheck disable=SC2016
  says history bash -c 'source /usr/share/bash-completion/completions/priod; COMP_WORDS=(priod his) COMP_CWORD=1; _priod priod; echo "${COMPREPLY[@]}"'
  # shellcheck disable=SC2016
  says "--gres --prio-type" bash -c '_sbatch() { COMPREPLY=(--gres); }; source /usr/share/bash-completion/completions/sbatchwrap; COMP_WORDS=(sbatchwrap --prio-t) COMP_CWORD=1; _sbatchwrap sbatchwrap; echo "${COMPREPLY[@]}"'
  [ ! -e /etc/systemd/system/multi-user.target.wants/priod.service ] || die "priod was enabled unasked"
}

# used is a site that has its configuration and state.
used() {
  cp /etc/slurmprio/priod.toml.example /etc/slurmprio/priod.toml
  echo "# ours" | tee -a /etc/slurmprio/priod.toml >>/etc/slurmprio/priod.toml.example
  echo '{}' >/var/lib/priod/undo.jsonl
  chown priod: /var/lib/priod/undo.jsonl
}

kept() {
  says "# ours" tail -n 1 /etc/slurmprio/priod.toml
  wants /var/lib/priod/undo.jsonl 644 priod
}

debs() {
  export DEBIAN_FRONTEND=noninteractive
  dpkg -i /dist/slurmprio-client_*.deb >/dev/null
  says "priod $VERSION" priod version
  says "nothing was started" dpkg -i /dist/slurmprio_*.deb
  installed
  say "installed"
  used
  newer /dist/*.deb
  dpkg -i /tmp/later-*.deb </dev/null >/tmp/log 2>&1 || die "$(cat /tmp/log)"
  says .later- dpkg -s slurmprio
  kept
  says "# ours" tail -n 1 /etc/slurmprio/priod.toml.example
  says "priod $VERSION" priod version
  say "upgraded: configuration and state as they were"
  cp /newer.db /var/lib/priod/priod.db
  dpkg -i /dist/*.deb </dev/null >/tmp/log 2>&1 || die "$(cat /tmp/log)"
  says "written by a newer priod (schema 99" priod history
  kept
  say "downgraded: the database of a newer priod is refused"
  says "priod reset" dpkg -r slurmprio
  [ ! -e /usr/lib/systemd/system/priod.service ] || die "removed, and the unit is there"
  kept
  say "removed: priod reset is named, configuration and state stay"
  says "undo.jsonl stays" dpkg -P slurmprio
  wants /var/lib/priod/undo.jsonl 644 priod
  [ ! -e /etc/slurmprio ] && [ ! -e /var/lib/priod/priod.db ] || die "purged, and there is $(ls -d /etc/slurmprio /var/lib/priod/*)"
  dpkg -i /dist/slurmprio_*.deb >/dev/null 2>&1
  : >/var/lib/priod/undo.jsonl
  dpkg -P slurmprio slurmprio-client >/dev/null 2>&1
  [ ! -e /var/lib/priod ] && [ ! -e /usr/bin/priod ] || die "purged, and there is $(ls -d /var/lib/priod /usr/bin/priod)"
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

# first runs the commands of docs/install.md as they stand there, on a cluster whose GPUs are all in use.
first() {
  local count=0 line
  cd /dist
  for _ in 1 2 3 4 5 6 7 8; do sbatch --output=/dev/null --gres=gpu:4 --wrap "sleep 600" >/dev/null; done
  while read -r line; do
    count=$((count + 1))
    line=${line//_amd64/} line=${line/ --now/} # no systemd runs here that could start it
    bash -e -c "$line" </dev/null >/tmp/log 2>&1 || die "$line: $(cat /tmp/log)"
  done < <(sed -n '/^## From the packages/,/^## /s/^    //p' /install.md)
  [ $count -ge 5 ] && [ $count -le 8 ] || die "$count commands up to the first written priority, and not 5 to 8"
  [ "$(sprio --noheader --format=%S | awk '$1 > 0' | wc -l)" -eq 1 ] || die "no priority was written: $(sprio --format='%i %S')"
  says enabled systemctl is-enabled priod
  say "the first written priority after $count commands"
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
  cp "$0" docs/install.md $copy/
  python3 - "$copy/newer.db" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("create table goose_db_version (id integer primary key, version_id integer not null, is_applied integer not null, tstamp timestamp default (datetime('now')))")
db.execute("insert into goose_db_version (version_id, is_applied) values (0, 1), (99, 1)")
db.commit()
PY
  rm -f $copy/etc/dpkg/dpkg.cfg.d/* # root.sh leaves man pages out
  mount -t proc proc $copy/proc
  mount --bind /sys $copy/sys
  mount --rbind /dev $copy/dev
  { printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)"; cat /etc/hosts; } >$copy/etc/hosts # srun wants this machine's own name
  cp "$lab" $copy/lab
  export VERSION suite
  exec chroot $copy bash /packages.sh "$act"
}

case ${1:-} in
  inside) inside "$2" "$3" ;;
  there) umask 022; debs; rpms; exit ;;
  cluster) umask 022; exec /lab run -- bash /packages.sh first ;;
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
lab=$(mktemp -p "$cache") # not below /tmp, which inside covers
trap 'rm -f "$lab"' EXIT
${GO:-go} build -o "$lab" ./tests/lab/cmd/lab
export lab suite
enter() { unshare --mount --propagation=private --pid --fork --kill-child -- "$0" inside "$@"; }
for suite in ${SUITES:-bookworm trixie}; do
  ROOTS=package-roots ROOT_PACKAGES=systemd,rpm,bash tests/root.sh build "$suite"
  enter "package-roots/$suite" there
done
suite=trixie
tests/root.sh build $suite
enter roots/$suite cluster
