#!/bin/sh
# Runs controller-runtime's own test suites against the servers in a KUBEBUILDER_ASSETS folder: those of
# examples/kube (make -C examples/kube assets OUT=dir), or kube-apiserver and etcd themselves, to see what the suites make of
# them on this machine.
#
#   ASSETS=dir scripts/controller-runtime.sh [package ...]
#
# ASSETS    the folder with kube-apiserver and etcd; required
# EXPLAINED the failures that are expected, with reasons (default scripts/controller-runtime.txt); empty for none
# KEEP      where to work and leave the logs; what was made there before is used again (default: a directory that is removed)
#
# Without arguments, all packages whose tests talk to a server are run, and those that their controllers are made of.
#
# The module is copied, since suites write beside their files. The exit code is 1 when something failed that is not
# explained.
set -eu

: "${ASSETS:?is not set: the folder with kube-apiserver and etcd}"
here=$(cd "$(dirname "$0")/.." && pwd)
EXPLAINED=${EXPLAINED-$here/scripts/controller-runtime.txt}
if [ -n "${KEEP:-}" ]; then
	mkdir -p "$KEEP"
	work=$(cd "$KEEP" && pwd)
else
	work=$(mktemp -d)
	trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
fi
KUBEBUILDER_ASSETS=$(cd "$ASSETS" && pwd)
export KUBEBUILDER_ASSETS GOFLAGS=-mod=mod

[ $# -gt 0 ] || set -- client client/apiutil cache manager manager/internal/integration builder controller controller/controllerutil \
	internal/controller internal/source internal/recorder source handler predicate reconcile cluster envtest webhook \
	metrics metrics/filters metrics/server

if [ ! -d "$work/module" ]; then
	module=$(cd "$here/internal/interop" && go mod download sigs.k8s.io/controller-runtime && go list -m -f '{{.Dir}}' sigs.k8s.io/controller-runtime)
	cp -R "$module" "$work/module"
	chmod -R u+w "$work/module"
fi
mkdir -p "$work/logs" "$work/suites"

# explain says why a failure is expected, and nothing if it is not. The file has lines of three fields, with tabs between
# them: a package, an extended regular expression for the name of a test, the reason.
explain() {
	[ -n "$EXPLAINED" ] || return 0
	awk -F '\t' -v package="$1" -v name="$2" '$1 == package && name ~ $2 { print $3; exit }' "$EXPLAINED"
}

# results lists the tests that passed, or failed, without those that are made of others, and without the one that runs all specs
# of Ginkgo: that counts them in one line, and lists failures at its end.
results() {
	awk -v runner="$1" -v wanted="$2" '
		/^ *--- (PASS|FAIL): / { state[$3] = substr($2, 1, 4) }
		END {
			for (name in state) {
				for (parent = name; sub(/\/[^\/]*$/, "", parent);) parents[parent]
			}
			for (name in state) if (state[name] == wanted && name != runner && !(name in parents)) print name
		}'
}

passed=0 failed=0 explained=0 wrong=0
for package; do
	log=$work/logs/$(echo "$package" | tr / -).log
	binary=$work/suites/$(echo "$package" | tr / -)
	flags="-test.v -test.timeout=10m"
	runner=$(awk '/^func Test/ { name = $2 } /RunSpecs\(t/ { sub(/\(.*/, "", name); print name; exit }' "$work/module/pkg/$package"/*_test.go)
	[ -z "$runner" ] || flags="$flags -ginkgo.no-color -ginkgo.timeout=9m"
	start=$(date +%s)
	(
		cd "$work/module"
		[ -x "$binary" ] || go test -c -o "$binary" "./pkg/$package"
		cd "pkg/$package"
		setsid "$binary" $flags & # some suites leave their servers behind: all that is in this session ends with it
		session=$!
		wait $session || true
		left=$(ps -o pid= -s $session || true)
		[ -z "$left" ] || kill $left
	) >"$log" 2>&1 || true
	took=$(($(date +%s) - start))
	p=$(results "${runner:-none}" PASS <"$log" | wc -l)
	p=$((p + $(awk '/ -- [0-9]+ Passed/ { for (i = 2; i <= NF; i++) if ($i == "Passed") n += $(i - 1) } END { print n + 0 }' "$log")))
	{
		sed -n 's/^ *\[\(FAIL\|PANICKED!\|TIMEDOUT\|INTERRUPTED\)\] //p' "$log"
		results "${runner:-none}" FAIL <"$log"
	} | sort -u >"$log.failures"
	if ! [ -s "$log.failures" ] && ! grep -q '^PASS$' "$log" && ! grep -q 'no test files' "$log"; then
		echo 'the suite does not run' >"$log.failures"
	fi
	f=0 e=0
	: >"$log.unexplained"
	while IFS= read -r name; do
		why=$(explain "$package" "$name")
		f=$((f + 1))
		if [ -n "$why" ]; then e=$((e + 1)); else echo "$name" >>"$log.unexplained"; fi
	done <"$log.failures"
	printf '%-30s %4d passed %4d failed %4d of them explained %5d s\n' "$package" "$p" "$f" "$e" "$took"
	sed 's/^/    /' "$log.unexplained"
	rm -f "$log.failures" "$log.unexplained"
	passed=$((passed + p)) failed=$((failed + f)) explained=$((explained + e))
	wrong=$((wrong + f - e))
done
printf '%-30s %4d passed %4d failed %4d of them explained\n' all "$passed" "$failed" "$explained"
[ "$wrong" -eq 0 ]
