#!/bin/sh
# Records what Kubernetes says about the documents of its scheduler, its proxy and its controller managers:
# config/testdata/scheduler.jsonl and its neighbours, from the .yaml beside each. Documents that cannot be
# decoded are reported, too.
#
#   DIR=directory scripts/documents/run.sh
#
# DIR  where to work; what was built there before is used again; required
set -eu

: "${DIR:?is not set: the directory to work in}"
version=36.3
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$DIR/documents"
cd "$DIR/documents"

# Kubernetes' own requirements, with the published modules in the place of its staging directories.
kubernetes=$(GOFLAGS=-mod=mod GOWORK=off go mod download -json "k8s.io/kubernetes@v1.$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
sed -e 's#^module .*#module documents#' -e "s#=> ./staging/src/\(k8s.io/[a-z-]*\)#=> \1 v0.$version#" "$kubernetes/go.mod" >go.mod
cp -f "$kubernetes/go.sum" go.sum
chmod u+w go.mod go.sum
go mod edit -require "k8s.io/kubernetes@v1.$version"
cp -f "$here/record.go.txt" main.go
GOFLAGS=-mod=mod GOWORK=off go build -trimpath -o record .
for name in scheduler proxy leadermigration; do
	./record <"$root/config/testdata/$name.yaml" >"$root/config/testdata/$name.jsonl"
done
