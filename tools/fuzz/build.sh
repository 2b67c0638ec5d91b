#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds every fuzz target with its seeds, as OSS-Fuzz asks: with CC, CFLAGS, LIB_FUZZING_ENGINE and SANITIZER, into OUT. Without these it
# builds with this machine's clang, so that it can be tried:
#
#     OUT=/tmp/out WORK=/tmp/work tools/fuzz/build.sh
#
# What the targets need at run time is beside them: shared libraries in OUT/lib, and the helper programs that read untrusted files.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -e "$source/meson.build" ] || source=${SRC:+$SRC/tidemark}
[ -n "$source" ] && [ -e "$source/meson.build" ] || source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${OUT:?}" "${WORK:?}"
sanitizer=${SANITIZER:-address}
engine=${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}
export CC=${CC:-clang} LDFLAGS="${LDFLAGS-} -Wl,-rpath,\$ORIGIN/lib"
mkdir -p "$OUT/lib" "$WORK"

if [ ! -e "$WORK/build/build.ninja" ]; then
    meson setup "$WORK/build" "$source" -Dfuzz=enabled -Dfuzz_engine="$engine" -Db_sanitize="$sanitizer" -Db_lundef=false \
        -Dbuildtype=debugoptimized -Dmpi=disabled -Donednn=disabled -Dpython=disabled
fi
mapfile -t targets < <(ninja -C "$WORK/build" -t targets all | sed -n 's|^\(tests/fuzz/fuzz_[a-z0-9_]*\): .*|\1|p' | grep -v '\.a$' | sort -u)
mapfile -t helpers < <(ninja -C "$WORK/build" -t targets all | sed -n 's|^\(lib/tidemark-read-[a-z0-9]*\): .*|\1|p' | sort -u)
ninja -C "$WORK/build" ${JOBS:+-j "$JOBS"} "${targets[@]}" "${helpers[@]}"

for program in "${targets[@]}" "${helpers[@]}"; do
    cp "$WORK/build/$program" "$OUT/"
    # Those of the system that the base image of the runners does not have.
    ldd "$WORK/build/$program" | sed -n 's|.* => \(/.*\) (0x.*|\1|p' | while read -r library; do
        case $(basename "$library") in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libgcc_s.so.* | libstdc++.so.*) ;;
        *) cp -L "$library" "$OUT/lib/" ;;
        esac
    done
done
for program in "${targets[@]}"; do
    name=$(basename "$program")
    target=${name#fuzz_}
    target=${target#alloc_}
    seeds=("$source/tests/fuzz/corpus/$target" "$source/tests/fuzz/regressions/$target")
    case $target in
    profile | encodings) seeds+=("$source/tests/golden") ;;
    esac
    leaks=1
    case $target in # HDF5 itself leaks when a file is damaged
    hdf5_data | hdf5_edits | lineage | onert | profile) leaks=0 ;;
    esac
    printf '[libfuzzer]\nmax_len = 80000\ndetect_leaks = %s\n' "$leaks" >"$OUT/$name.options"
    python3 - "$OUT/${name}_seed_corpus.zip" "${seeds[@]}" <<'PYTHON'
import sys, zipfile
from pathlib import Path

with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for i, folder in enumerate(map(Path, sys.argv[2:])):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            archive.write(path, f"{i}-{path.name}")
PYTHON
done
echo "${#targets[@]} targets in $OUT"
