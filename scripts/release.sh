#!/usr/bin/env bash
# Builds the programs of a release, lists what they consist of, and sums everything up.
#
#   scripts/release.sh DIRECTORY          for all TARGETS, "linux/amd64 linux/arm64 darwin/arm64"
#   scripts/release.sh --check            builds for this machine from two clones in two places,
#                                         and fails unless all sums are equal
#
# The version in a program is that of the tag or commit (go version -m PROGRAM); a tree with changes
# that are not committed says so. Equal sources, targets and Go releases give equal files.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each line: the name of the program, its module, its package.
programs() {
    echo "kindwright-server . ./examples/server"
    echo "kindwright-store examples/cluster ./kindwright-store"
    echo "kube-apiserver examples/kube ./kube-apiserver"
    echo "etcd examples/kube ./etcd"
}

release() {
    local out=$1 targets=$2 name module package target file
    mkdir -p "$out"
    [ -z "$(ls -A "$out")" ] || { echo "release: $out is not empty" >&2; return 1; }
    out=$(cd "$out" && pwd)
    for target in $targets; do
        while read -r name module package; do
            file=$out/${name}_${target%/*}_${target#*/}
            CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} GOWORK=off GOFLAGS=-mod=readonly \
                go -C "$module" build -trimpath -buildvcs=true -ldflags '-s -w -buildid=' -o "$file" "$package"
            go run ./scripts/sbom "$file" >"$file.cdx.json"
        done < <(programs)
    done
    (cd "$out" && LC_ALL=C sha256sum -- * >../SHA256SUMS.$$ && mv ../SHA256SUMS.$$ SHA256SUMS)
}

check() {
    local target
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT # dir is global: the trap runs outside of this function
    target=$(go env GOOS)/$(go env GOARCH)
    # The second clone is of the first: the commit is the same even if this tree moves on meanwhile.
    git -c advice.detachedHead=false clone -q . "$dir/one"
    git -c advice.detachedHead=false clone -q "$dir/one" "$dir/another/place"
    for place in one another/place; do
        TARGETS=$target "$dir/$place/scripts/release.sh" "$dir/out-${place%%/*}"
    done
    diff "$dir/out-one/SHA256SUMS" "$dir/out-another/SHA256SUMS"
    (cd "$dir/out-one" && sha256sum --quiet -c SHA256SUMS)
    cat "$dir/out-one/SHA256SUMS"
    echo "two builds in two places are equal"
}

case ${1:-} in
--check) check ;;
'' | -*) echo "usage: scripts/release.sh DIRECTORY | --check" >&2; exit 2 ;;
*) release "$1" "${TARGETS:-linux/amd64 linux/arm64 darwin/arm64}" ;;
esac
