# SPDX-License-Identifier: Apache-2.0
# setup.sh: what scripts/demo and scripts/test share: messages, packages, builds. Sourced by bash.
# shellcheck shell=bash

hc_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# hc_say TEXT: a step, on standard error, so that standard output holds results only.
hc_say() { printf '==> %s\n' "$*" >&2; }

# hc_die TEXT: one line and exit code 2: the machine or the call is at fault, not a test.
hc_die() {
  printf '%s: error: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

# hc_is_installed PACKAGE
hc_is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# hc_clang_version: the major version that the package clang stands for on this release, or nothing.
hc_clang_version() {
  { dpkg-query -W -f '${Depends}\n' clang 2>/dev/null || apt-cache depends clang 2>/dev/null; } |
    sed -n 's/.*clang-\([0-9]\+\).*/\1/p' | head -n 1
}

# hc_missing_packages GROUP...: the packages of the groups that are not installed, one a line.
hc_missing_packages() {
  local group package version
  while read -r group package; do
    [[ " $* " == *" $group "* ]] || continue
    if [[ $package == clang-rt ]]; then
      version=$(hc_clang_version)
      package=libclang-rt-${version:-14}-dev
    fi
    hc_is_installed "$package" || printf '%s\n' "$package"
  done < <(grep -v '^#' "$hc_root/scripts/lib/packages")
}

# hc_install_packages GROUP...: installs what is missing; does not touch apt if nothing is.
hc_install_packages() {
  local -a as_root=() missing
  if ! command -v dpkg-query >/dev/null; then
    hc_say "this is not a Debian system; scripts/lib/packages lists what the build will look for"
    return
  fi
  mapfile -t missing < <(hc_missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      hc_die "packages are missing; as root, run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  hc_say "updating the package lists"
  hc_apt update || hc_die "apt-get update failed; the lines above say why"
  # The lists decide which clang is the default, so look again.
  mapfile -t missing < <(hc_missing_packages "$@")
  hc_say "installing ${missing[*]}"
  hc_apt install -y --no-install-recommends "${missing[@]}" ||
    hc_die "apt-get could not install the packages (above: why); is the mirror reachable?"
}

# hc_apt ARGUMENT...: apt-get without questions; waits for another apt; quiet unless it fails.
hc_apt() {
  local log status=0
  log=$(mktemp "${TMPDIR:-/tmp}/hc-apt.XXXXXX")
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
    apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >"$log" 2>&1 || status=$?
  ((status == 0)) || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$status"
}

# hc_build PRESET [cmake configure option...] [-- target...]: configures and builds build/PRESET.
hc_build() {
  local preset=$1 log
  local -a options=() targets=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  (($# < 2)) || targets=(--target "${@:2}")
  log="$hc_root/build/$preset.configure.log"
  mkdir -p "$hc_root/build"
  hc_say "configuring build/$preset"
  (cd "$hc_root" && cmake --preset "$preset" "${options[@]}") >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    return 1
  }
  hc_say "building build/$preset"
  (cd "$hc_root" && cmake --build --preset "$preset" -j "$(nproc)" "${targets[@]}") >&2
}
