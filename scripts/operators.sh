#!/bin/sh
# Runs the test suites of operators, which use envtest, against the servers in a KUBEBUILDER_ASSETS folder: those of
# examples/kube (make -C examples/kube assets OUT=dir), or kube-apiserver and etcd themselves.
#
#   ASSETS=dir DIR=dir scripts/operators.sh [name ...]
#
# ASSETS  the folder with kube-apiserver and etcd; required
# DIR     where modules are copied to and logs are left; what was made there before is used again; required
#
# The suites are listed in scripts/operators.txt. They are unchanged, but for the download of binaries, which is taken
# out. The exit code is 1 when one of them fails.
set -eu

: "${ASSETS:?is not set: the folder with kube-apiserver and etcd}"
: "${DIR:?is not set: the folder to work in}"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$DIR"
work=$(cd "$DIR" && pwd)
KUBEBUILDER_ASSETS=$(cd "$ASSETS" && pwd)
export KUBEBUILDER_ASSETS GOFLAGS=-mod=mod GOWORK=off

# copy puts a module where it can be written to.
copy() {
	[ ! -d "$work/$1" ] || return 0
	from=$(cd "$work" && go mod download -json "$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	cp -R "$from" "$work/$1"
	chmod -R u+w "$work/$1"
	grep -rl --include='*_test.go' 'DownloadBinaryAssets' "$work/$1" | while read -r file; do
		sed -i.orig -e '/DownloadBinaryAssets/d' -e 's/k8sVersion := os.Getenv/_ = os.Getenv/' "$file"
	done
}

failed=0
tab=$(printf '\t')
suites=$(grep -v '^#' "$here/operators.txt")
while IFS=$tab read -r name module package skip _; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	copy "$name" "$module"
	log=$work/$name$(echo "$package" | tr -c 'a-z0-9\n' _).log
	[ "$skip" != - ] || skip=
	rc=0
	(cd "$work/$name" && go test -vet=off -count=1 -timeout 30m -v "$package" \
		$([ -z "$skip" ] || echo -args) ${skip:+-ginkgo.skip="$skip"}) >"$log" 2>&1 </dev/null || rc=$?
	[ $rc -eq 0 ] || failed=1
	printf '%-12s %-32s %s  %s\n' "$name" "$package" "$([ $rc -eq 0 ] && echo ok || echo FAILED)" \
		"$(sed -n 's/.*\(Ran [0-9]* of [0-9]* Specs\).*/\1/p' "$log" | tail -n 1) $(grep -c '^ *--- PASS' "$log" || true) passed, log $log"
done <<END
$suites
END
exit $failed
