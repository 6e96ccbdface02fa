#!/usr/bin/env bash
# Counts the functions, files and packages that run for one request of each kind; see bench/walk.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go -C bench build -cover -covermode=atomic -coverpkg=github.com/kindwright/kindwright/... -o "$dir/walk" ./walk
GOCOVERDIR=$dir "$dir/walk" "$dir/counters"
printf '%-22s %9s %6s %9s\n' request functions files packages
for request in "$dir"/counters/*; do
    go tool covdata func -i="$request" | grep '/' | grep -v '/bench/walk/' | awk '$NF != "0.0%" { print $1 }' >"$request.functions"
    printf '%-22s %9d %6d %9d\n' "$(basename "$request")" "$(wc -l <"$request.functions")" \
        "$(cut -d: -f1 "$request.functions" | sort -u | wc -l)" \
        "$(cut -d: -f1 "$request.functions" | xargs -n1 dirname | sort -u | wc -l)"
done
