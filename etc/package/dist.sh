#!/usr/bin/env bash
# Makes what is published, in dist/: for amd64 and arm64 a tarball, the packages slurmprio and
# slurmprio-client as .deb and .rpm, an SBOM (CycloneDX), and the checksums of all. The version
# is that of make version. One commit gives the same bytes again, with the same compilers.
#
# priod uses the C library, for SQLite and for users whom LDAP or SSSD knows, so it cannot be
# linked statically; sbatchwrap is.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${GO:=go}" "${VERSION:=$(make --no-print-directory -s version)}"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH MAINTAINER=${MAINTAINER:-slurmprio <slurmprio@localhost>}

# package_version is VERSION as dpkg and rpm compare it: 1.2.0-rc1 comes before 1.2.0, and that before
# 1.2.0+g0123456789ab, where the commits are counted, so that later ones come later.
package_version() {
  sed -E "s/^v//; s/\+g/+$(git rev-list --count HEAD).g/; s/-/~/g" <<<"$VERSION"
}

# compiler names the C compiler for an architecture, and installs Debian's where that is possible.
compiler() {
  local cc package
  [ "$1" != "$("$GO" env GOHOSTARCH)" ] || { echo "${CC:-gcc}"; return; }
  case $1 in
    amd64) cc=x86_64-linux-gnu-gcc package="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
    arm64) cc=aarch64-linux-gnu-gcc package="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
  esac
  # shellcheck disable=SC2086
  command -v $cc >/dev/null || { command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] && apt-get update &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $package; } >&2 || true
  if ! command -v $cc; then
    printf '\n*** NOT BUILT for %s: there is no %s (Debian: apt-get install %s) ***\n\n' "$1" "$cc" "$package" >&2
    return 1
  fi
}

# stage installs a part of the tree for an architecture, as make install does.
stage() { # ARCH CC TARGET PREFIX DESTDIR
  env -u DESTDIR GOOS=linux GOARCH="$1" CC="$2" CGO_ENABLED=1 GOFLAGS=-trimpath \
    make --no-print-directory -s "$3" GO="$GO" VERSION="$VERSION" LDFLAGS="-s -w -X main.version=$VERSION" BIN="$work/bin-$1" PREFIX="$4" DESTDIR="$5"
}

release() {
  local arch=$1 cc=$2 name=slurmprio-$VERSION-linux-$1 kind package
  export ARCH=$arch STAGE=$work/$arch
  stage "$arch" "$cc" install-client /usr "$STAGE/slurmprio-client"
  stage "$arch" "$cc" install-daemon /usr "$STAGE/slurmprio"
  stage "$arch" "$cc" install /usr/local "$STAGE/$name"
  # Files and no folders, so that tar changes no folder that is there.
  (cd "$STAGE" && find "$name" ! -type d | LC_ALL=C sort | tar --create --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --no-recursion --files-from=-) | gzip -9n >"dist/$name.tar.gz"
  for package in slurmprio slurmprio-client; do
    for kind in deb rpm; do
      "$work/nfpm" package --config "etc/package/$package.yaml" --packager "$kind" --target dist/ >"$work/log" || { cat "$work/log" >&2; return 1; }
    done
  done
  for program in priod sbatchwrap; do
    "$work/cyclonedx-gomod" bin -json -noserial -notimestamp -std -version "$VERSION" -output "dist/$program-$VERSION-linux-$arch.cdx.json" "$work/bin-$arch/$program" 2>"$work/log" ||
      { cat "$work/log" >&2; return 1; }
  done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf dist
mkdir dist
PACKAGE_VERSION=$(package_version)
export PACKAGE_VERSION
"$GO" build -modfile=etc/package/go.mod -o "$work/" tool
for arch in amd64 arm64; do
  cc=$(compiler $arch) || continue
  release $arch "$cc"
done
(cd dist && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
ls -l dist
