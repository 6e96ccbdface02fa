#!/usr/bin/env bash
# Prints what the example server costs: the size of its stripped binary, the modules linked into it, and for an empty
# data file and one of 100,000 objects of 1 KiB the time from exec until it serves and the memory it then occupies.
# Nothing is judged. COUNT (default 5) starts are averaged.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go build -trimpath -ldflags='-s -w' -o "$work/server" ./examples/server
echo "stripped binary: $(wc -c <"$work/server" | awk '{ printf "%.1f MiB\n", $1 / 1048576 }')"

modules=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}' ./examples/server | sort -u)
echo "modules linked, besides ours: $(grep -c . <<<"$modules")"
sed 's/^/  /' <<<"$modules"

# Nanoseconds are from exec until it serves, ready-MiB its memory then, idle-MiB that after some idle seconds.
KINDWRIGHT_SERVER=$work/server go test -run '^$' -bench '^BenchmarkStart$' -benchtime "${COUNT:-5}x" ./examples/internal/program
