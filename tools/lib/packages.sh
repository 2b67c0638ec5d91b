# SPDX-License-Identifier: Apache-2.0
# What Tidemark needs, in one place, under Debian's names; and how to get it. Sourced by tools/quickstart and tools/check.
# shellcheck shell=bash disable=SC1090,SC2034

build_packages=(
    gcc pkg-config meson ninja-build
    libcjson-dev libhdf5-dev libdnnl-dev libprotobuf-c-dev protobuf-c-compiler libxxhash-dev libssl-dev libzip-dev
    libpng-dev libjpeg-dev libyaml-dev
)
# For a run that mpirun starts on several machines, the test of the report in a browser, the Python package, what cppcheck says, the filter
# of calls of helper programs; everything else works without.
# tools/check installs them where it can.
optional_packages=(libopenmpi-dev openmpi-bin chromium python3-dev cppcheck libseccomp-dev)
check_packages=(libcmocka-dev g++ python3 python3-venv)
# From PyPI, into a virtual environment: tests compare with them, tools/site makes the pages of the documentation.
python_packages=(onnx onnxruntime numpy h5py jsonschema pillow sphinx myst-parser furo hypothesis mypy)
python_modules=(onnx onnxruntime numpy h5py jsonschema PIL sphinx myst_parser furo hypothesis mypy)
# Programs that read our exports, 600 MB: their tests run where these can be had, each for itself. tools/check-consumers has those
# that are larger.
consumer_packages=(openvino ncnn ai-edge-quantizer ai-edge-litert)

say() { printf '%s\n' "$*"; }
stop() { printf '%s\n' "$@" >&2; exit 1; }

# Debian, or a distribution that says it is like it, with its package tools.
debian_like() {
    local file=/etc/os-release ids
    if ! [ -r "$file" ] || ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        return 1
    fi
    ids=$(. "$file" && printf ' %s %s ' "${ID-}" "${ID_LIKE-}")
    [[ $ids == *' debian '* ]]
}

# Those of the named packages that are not installed, a line each.
missing_packages() {
    local package
    for package; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || say "$package"
    done
}

# apt_install [COMMAND...] -- PACKAGE...: COMMAND is what makes one root.
apt_install() {
    local as_root=()
    while [ "$1" != -- ]; do
        as_root+=("$1")
        shift
    done
    shift
    "${as_root[@]}" apt-get -qq update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# Installs what is missing of the named packages where nobody needs to be asked. Where that can't be done it says so, and all is well.
try_packages() {
    local missing as_root=()
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then
        say "installing optional packages: ${missing[*]}"
        apt_install "${as_root[@]}" -- "${missing[@]}" && return 0
    fi
    say "going on without optional packages: ${missing[*]}"
}

# Installs what is missing of the named packages, or says what to type and exits with status 1.
install_packages() {
    local missing as_root=()
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    say "missing packages: ${missing[*]}"
    local by_hand=(
        "Please type this as root, then start ${0##*/} again:"
        "    apt-get update && apt-get install --no-install-recommends ${missing[*]}")
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || stop "They can't be installed from here: you are not root, and there is no sudo." "${by_hand[@]}"
        as_root=(sudo)
        [ -t 0 ] || as_root=(sudo -n)
    fi
    say "installing them with apt-get"
    apt_install "${as_root[@]}" -- "${missing[@]}" || stop "apt-get could not install them." "${by_hand[@]}"
}

# set_up FOLDER [MESON OPTION...]: configures a build folder, new or old.
set_up() {
    local folder=$1
    shift
    if [ -f "$folder/meson-private/coredata.dat" ]; then
        meson setup --reconfigure "$folder" "$@"
    else
        meson setup "$folder" "$@"
    fi
}
