#!/usr/bin/env bash
# Another Debian, and so another Slurm, beside this machine's own, as root:
#
#   root.sh build SUITE            makes its root; anew when it is older than a day
#   root.sh run SUITE -- COMMAND   COMMAND in this folder, in that root
#   root.sh slurm [SUITE]          the Slurm there, or here, such as 24.11.5
#   root.sh unable                 says why there can be no roots here; fails where there can
#
# trixie has Slurm 24.11, sid the newest. Roots are kept in the user's cache folder.
# packages.sh names others by ROOTS and ROOT_PACKAGES.
set -euo pipefail
self=$(realpath "$0")
checkout=$(dirname "$(dirname "$self")")
export PATH=$PATH:/usr/sbin:/sbin XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}
roots=$XDG_CACHE_HOME/slurmprio/${ROOTS:-roots}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
packages=${ROOT_PACKAGES:-munge,slurmctld,slurmd,slurmdbd,slurm-client,mariadb-server,procps,python3,glpk-utils,prometheus,gcc,libc6-dev}

say() { echo "root.sh: $*" >&2; }

unable() {
  if [ "$(id -u)" -ne 0 ]; then echo "only root can build a root and enter it"
  elif ! unshare --mount --propagation=private --pid --fork true 2>/dev/null; then echo "this machine refuses unshare --mount --pid"
  elif ! command -v mmdebstrap >/dev/null && ! command -v apt-get >/dev/null; then echo "neither mmdebstrap is here nor an apt-get to install it"
  else return 1; fi
}

# fresh tells whether a root is of these packages and not older than a day.
fresh() { [ "$(cat "$1/.recipe" 2>/dev/null)" = "$mirror $packages" ] && [ -n "$(find "$1/.recipe" -mmin -1440)" ]; }

# build makes a root under another name until it is whole, so that one that was
# killed midway is never used. Where that fails, the root that is there stays.
build() {
  local root=$roots/$1 log=$roots/$1.log
  mkdir -p "$roots"
  ! fresh "$root" || return 0
  exec 9>"$root.lock" # everybody who works in the root holds it, too
  if ! flock --nonblock 9; then
    [ ! -d "$root" ] || { say "$root is older than a day, and stays: it is in use"; return 0; }
    say "another run builds $root; waiting for it"
    flock 9
    ! fresh "$root" || return 0
  fi
  say "building $root"
  if fill "$1" "$root.new" >"$log" 2>&1; then
    rm -rf --one-file-system "$root"
    mv "$root.new" "$root"
    return
  fi
  rm -rf --one-file-system "$root.new"
  tail -n 20 "$log" >&2
  [ -d "$root" ] || { say "$root could not be built; all of its log: $log"; return 1; }
  printf '\n*** %s could not be brought up to date: it has Slurm %s, from %s ***\n\n' "$root" "$(slurm "$1")" "$(date -r "$root/.recipe" +%F)" >&2
}

# fill makes a folder a Debian. apt runs outside of it, so it has this machine's
# certificates; what is configured of proxies is passed on.
fill() {
  rm -rf --one-file-system "$2"
  command -v mmdebstrap || flock "$roots" sh -c 'command -v mmdebstrap ||
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends mmdebstrap; }' || return
  mmdebstrap --mode=root --variant=minbase --include="$packages" --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --aptopt="$(apt-config dump | grep -E '^Acquire::(https?|Check|Retries)')" "$1" "$2" "deb $mirror $1 main" &&
    echo "$mirror $packages" >"$2/.recipe"
}

slurm() { { [ $# -eq 0 ] || set -- chroot "$roots/$1"; } && "$@" slurmctld -V | grep -oE '[0-9.]+$'; }

# run becomes COMMAND in namespaces of its own: however it ends, it leaves no
# mount and no process. It sees the checkout, Go with its caches, an empty /tmp.
run() {
  local root=$roots/$1
  shift
  [ "$1" != -- ] || shift
  [ -d "$root" ] || { say "there is no $root: $self build makes it"; return 1; }
  exec 9>"$root.lock"
  flock --shared 9
  { read -r GOROOT; read -r GOMODCACHE; read -r GOCACHE; } < <(cd "$checkout" && "${GO:-go}" env GOROOT GOMODCACHE GOCACHE)
  export GOROOT GOMODCACHE GOCACHE
  # unshare of util-linux 2.38 ignores SIGINT and SIGTERM; COMMAND gets them from the terminal.
  exec setpriv --pdeathsig KILL unshare --mount --propagation=private --pid --fork --kill-child -- "$self" inside "$root" "$@"
}

# inside is the first process of the namespaces; it also waits for orphans.
inside() {
  local root=$1 place program=
  shift
  case $1 in /*) program=$(dirname "$1") ;; esac # of go test -exec: below /tmp
  mount --bind "$root" "$root"                   # unshare in a test wants a mount point
  mount -t proc proc "$root/proc"
  mount --bind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  for place in "$GOROOT" "$GOMODCACHE" "$GOCACHE" "$checkout" "${SLURMPRIO_BUILT:-}" "${program##/usr*}"; do
    [ -d "$place" ] || continue
    mkdir -p "$root$place"
    mount --bind "$place" "$root$place"
  done
  { printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)"; cat /etc/hosts; } >"$root/tmp/hosts"
  touch "$root/etc/hosts"
  mount --bind "$root/tmp/hosts" "$root/etc/hosts" # srun wants this machine's own name
  export HOME=/root TMPDIR=/tmp GOFLAGS=-buildvcs=false GOPROXY=off
  export PATH=$GOROOT/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$PWD" "$@"
}

"$@"
