#!/usr/bin/env bash
# Runs Kubernetes' own suites of kubectl, hack/make-rules/test-cmd.sh, against the servers in a folder: those of
# examples/kube (make -C examples/kube assets OUT=dir), or kube-apiserver and etcd themselves.
#
#   ASSETS=dir DIR=dir scripts/test-cmd.sh [suite ...]
#
# ASSETS  the folder with kube-apiserver and etcd; required
# DIR     where to work: the suites, the programs they use, logs; what was made there before is used again; required
# KNOWN   the suites that are known to fail, with reasons (default scripts/test-cmd.txt); empty for none
# PORT    the first of three ports (default 21000)
#
# A suite is a function run_…_tests of test/cmd in Kubernetes, named without both ends: pod, kubectl_apply. Without
# arguments all are run, some 80; each calls kubectl up to a hundred times. kubectl, kubectl-convert and kube-controller-manager, which the suites need, are built
# from the module k8s.io/kubernetes. The suites are unchanged.
#
# The exit code is 1 when a suite failed that is not known to, or when the run did not reach its end.
set -euo pipefail

: "${ASSETS:?is not set: the folder with kube-apiserver and etcd}"
: "${DIR:?is not set: the directory to work in}"
version=36.3
here=$(cd "$(dirname "$0")" && pwd)
KNOWN=${KNOWN-$here/test-cmd.txt}
mkdir -p "$DIR/bin" "$DIR/build" "$DIR/logs"
work=$(cd "$DIR" && pwd)
assets=$(cd "$ASSETS" && pwd)
export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0

source=$(cd "$work" && go mod download -json "k8s.io/kubernetes@v1.$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')

# build makes a program of Kubernetes. Its module replaces others by folders that are not in it: here by their releases.
build() {
    local stamp=k8s.io/component-base/version
    cd "$work/build"
    sed -e 's,^module .*,module testcmd,' -e "s,=> ./staging/src/\(k8s.io/[a-z-]*\),=> \1 v0.$version," "$source/go.mod" >go.mod
    cat "$source/go.sum" >go.sum
    printf '//go:build tools\n\npackage tools\n\nimport _ "k8s.io/kubernetes/cmd/%s"\n' "$1" >tools.go
    go mod edit -require "k8s.io/kubernetes@v1.$version"
    go build -trimpath -o "$work/bin/$1" -ldflags "-w -X $stamp.gitVersion=v1.$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${version%.*} \
-X $stamp.gitTreeState=clean -X $stamp.gitCommit=0000000000000000000000000000000000000000 -X $stamp.buildDate=2026-01-01T00:00:00Z" \
        "k8s.io/kubernetes/cmd/$1"
}
for program in kubectl kubectl-convert kube-controller-manager; do
    [ -x "$work/bin/$program" ] || (build "$program")
done

# The suites write beside their files, and begin with a make of the programs.
tree=$work/tree
rm -rf "$tree"
mkdir -p "$tree/_output/bin" "$tree/programs" "$tree/third_party/forked" "$tree/test/e2e" "$tree/tmp" "$tree/reports"
cp -R "$source/hack" "$tree/"
cp -R "$source/test/cmd" "$source/test/fixtures" "$tree/test/"
cp -R "$source/test/e2e/testing-manifests" "$tree/test/e2e/"
cp -R "$source/third_party/forked/shell2junit" "$tree/third_party/forked/"
chmod -R u+w "$tree"
# The stand-in for etcd stores nothing, and is of the first release of its minor version.
sed -i.orig "/v3.kv.put/d" "$tree/hack/lib/etcd.sh"
find "$tree/hack" "$tree/test/cmd" -name '*.sh' -exec chmod +x {} +
find "$tree/test/fixtures/pkg/kubectl/plugins" -type f -exec chmod +x {} +
ln -s "$work/bin/kubectl" "$work/bin/kubectl-convert" "$assets/kube-apiserver" "$tree/_output/bin/"
ln -s "$assets/etcd" "$tree/programs/etcd"
printf '#!/bin/sh\n' >"$tree/programs/make"
printf '#!/bin/sh\nexec "%s" "$@" --secure-port="$SECURE_CTLRMGR_PORT"\n' "$work/bin/kube-controller-manager" \
    >"$tree/_output/bin/kube-controller-manager"
chmod +x "$tree/programs/make" "$tree/_output/bin/kube-controller-manager"

log=$work/logs/$(date +%H%M%S).log
port=${PORT:-21000}
code=0
(
    cd "$tree"
    unset KUBECONFIG EDITOR VISUAL ARTIFACTS
    export ALLOW_SKEW=true PATH="$tree/programs:$PATH" TERM=xterm KUBEADM_PATH=none TMPDIR=$tree/tmp KUBE_JUNIT_REPORT_DIR=$tree/reports
    export ETCD_VERSION=3.6.0 ETCD_PORT=$port SECURE_API_PORT=$((port + 1)) SECURE_CTLRMGR_PORT=$((port + 2)) SERVICE_ACCOUNT_KEY=$tree/account.key
    WHAT="$*" setsid bash hack/make-rules/test-cmd.sh & # a run that fails early leaves programs behind
    session=$!
    wait $session || code=$?
    left=$(ps -o pid= -s $session || true)
    [ -z "$left" ] || kill $left
    exit $code
) >"$log" 2>&1 </dev/null || code=$?

# explain says why a suite is known to fail: KNOWN has lines of a suite and the reason, with a tab between them.
explain() {
    [ -z "$KNOWN" ] || awk -F '\t' -v suite="$1" '$1 == suite { print $2; exit }' "$KNOWN"
}

passed=0 failed=0 known=0
while read -r suite result; do
    suite=${suite#run_}
    suite=${suite%_tests}
    reason=$(explain "$suite")
    if [ "$result" = 0 ]; then
        passed=$((passed + 1))
        [ -z "$reason" ] || echo "passes $suite, which is known to fail: $reason"
    elif [ -n "$reason" ]; then
        known=$((known + 1))
        echo "known  $suite: $reason"
    else
        failed=$((failed + 1))
        echo "FAILED $suite"
    fi
done < <(awk '/\+\+\+ Running case: test-cmd\./ { sub(/.*test-cmd\./, ""); suite = $1; next } # behind what sets a colour, at times
    suite != "" && sub(/.*\+\+\+ exit code: /, "") { if (suite != "record_command_canary") print suite, $1; suite = "" }' "$log")
end=$(grep -Ec '^(FAILED TESTS: |.*TESTS PASSED)' "$log" || true)
echo "$passed passed, $failed failed, $known known to fail; log $log"
if [ "$end" = 0 ]; then
    echo "the run did not reach its end, exit code $code" >&2
    exit 1
fi
[ $failed -eq 0 ]
