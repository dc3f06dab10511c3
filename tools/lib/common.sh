# SPDX-License-Identifier: Apache-2.0
# What the scripts in tools/ share: packages, configure, build, timing. Source it.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# What a build needs, and what the tests and the fuzz targets need beside it.
build_packages=(g++ cmake ninja-build ccache libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools lld-22
  libdnnl-dev libomp-dev libflatbuffers-dev flatbuffers-compiler libcli11-dev libtomlplusplus-dev
  nlohmann-json3-dev libfmt-dev libspdlog-dev libxxhash-dev)
test_packages=(libgtest-dev libgmock-dev python3 python3-numpy python3-pytest clang-format-22 clang-tidy-22)
fuzz_packages=(clang-22 libclang-rt-22-dev)

say() { printf '\n==> %s\n' "$*"; }

# install_packages PACKAGE...: installs those that are missing; says what it does, and nothing when
# there is nothing to do.
install_packages() {
  local missing=() sudo=""
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  [ -z "$sudo" ] || command -v sudo >/dev/null ||
    { echo "error: no right to install packages (no root, no sudo); an administrator can: apt-get install ${missing[*]}" >&2; return 2; }
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  $sudo apt-get update -q
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" ||
    { echo "error: Debian 12 with its security updates has all of these packages; check /etc/apt/sources.list" >&2; return 2; }
}

# build PRESET TARGET...: configures and builds.
build() {
  local preset=$1
  shift
  (cd "$root" && cmake --preset "$preset" >"$root/.configure.log" 2>&1) ||
    { cat "$root/.configure.log" >&2; return 2; }
  rm -f "$root/.configure.log"
  (cd "$root" && cmake --build --preset "$preset" --target "$@")
}

# timed LABEL COMMAND...: runs the command and remembers how long it took; report_times prints all.
times=()
timed() {
  local label=$1 start=$SECONDS
  shift
  "$@" || return $?
  times+=("$(printf '%6d s  %s' $((SECONDS - start)) "$label")")
}
report_times() { printf '%s\n' "${times[@]}"; }
