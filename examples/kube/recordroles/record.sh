#!/bin/sh
# Writes roles.json: the roles and bindings that kube-apiserver makes when it starts, as its own code
# (package bootstrappolicy) returns them. It needs the module proxy and a few minutes.
set -eu
version=${KUBE_VERSION:-1.36.3}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$here/record.go.txt" "$dir/main.go"
cd "$dir"
export GOFLAGS=-mod=mod GOWORK=off
source=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
# kubernetes replaces its libraries by directories; these are the same as published.
sed -e 's#^module .*#module record#' -e "s#=> ./staging/src/\(k8s.io/[a-z-]*\)#=> \1 v0.${version#*.}#" "$source/go.mod" > go.mod
cp -f "$source/go.sum" go.sum
chmod u+w go.mod go.sum
go mod edit -require "k8s.io/kubernetes@v$version"
go run . > roles.json
mv roles.json "$here/../roles.json"
