#!/bin/sh
# Compares what the stand-in of examples/kube makes of writes with what Kubernetes' own code makes of
# them. The objects of examples/kube/comparewrites are changed at random, created and updated.
#
#   DIR=directory scripts/kube-validation/run.sh
#
# DIR       where to work: programs; what was built there before is used again; required
# KINDS     a regular expression: the kinds to compare (default all)
# N         how many writes there are (default 20000)
# SEED      chooses the changes (default 1)
# MESSAGES  not empty: the sentences of causes are compared, too
# KNOWN     the differences that are known, with reasons (default known.txt beside this file); empty for none
#
# The first run compiles a part of Kubernetes: that takes five minutes on two cores and 2 GB. Every
# kind of difference is printed once, with the number of writes that have it and one of these.
#
# The exit code is 1 when there is a difference that is not known.
set -eu

: "${DIR:?is not set: the directory to work in}"
version=36.3
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
KNOWN=${KNOWN-$here/known.txt}
mkdir -p "$DIR/oracle"
work=$(cd "$DIR" && pwd)

# module makes a module that requires what Kubernetes does, with its staging in the published versions.
module() {
	from=$(cd / && GOFLAGS='' go mod download -json "k8s.io/kubernetes@v1.$version" | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
	[ -n "$from" ] || { echo "k8s.io/kubernetes cannot be downloaded" >&2; exit 1; }
	sed -e 's,^module .*,module oracle,' -e "s,=> ./staging/src/\(k8s.io/.*\),=> \1 v0.$version," "$from/go.mod" >"$work/oracle/go.mod"
	cat "$from/go.sum" >"$work/oracle/go.sum"
	go -C "$work/oracle" mod edit -require "k8s.io/kubernetes@v1.$version"
}

# build compiles the oracle, unless it is there.
build() (
	export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
	! cmp -s "$here/oracle.go.txt" "$work/oracle/main.go" || [ ! -x "$work/oracle/oracle" ] || return 0
	module
	go -C "$work/oracle" list -m -f '{{.Dir}}' k8s.io/api >"$work/oracle/api"
	rm -f "$work/oracle/oracle"
	cp "$here/oracle.go.txt" "$work/oracle/main.go"
	go -C "$work/oracle" build -trimpath -o oracle .
)

build
go -C "$root/examples/kube" build -o "$work/comparewrites" ./comparewrites
exec "$work/comparewrites" -oracle "$work/oracle/oracle" -api "$(cat "$work/oracle/api")" -known "$KNOWN" \
	-kinds "${KINDS:-}" -n "${N:-20000}" -seed "${SEED:-1}" ${MESSAGES:+-messages}
