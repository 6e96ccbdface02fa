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
# out. The exit code is 1 when one of them fails, or passes with fewer tests than the list says.
set -eu

: "${ASSETS:?is not set: the folder with kube-apiserver and etcd}"
: "${DIR:?is not set: the folder to work in}"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$DIR"
work=$(cd "$DIR" && pwd)
KUBEBUILDER_ASSETS=$(cd "$ASSETS" && pwd)
export KUBEBUILDER_ASSETS GOFLAGS=-mod=mod GOWORK=off
# cert-manager asks for each program by name, kubectl too, which its tests do not start.
export TEST_ASSET_ETCD="$KUBEBUILDER_ASSETS/etcd" TEST_ASSET_KUBE_APISERVER="$KUBEBUILDER_ASSETS/kube-apiserver"
export TEST_ASSET_KUBECTL="$KUBEBUILDER_ASSETS/kubectl"

# download prints the folder of a module in the cache, which is read-only.
download() {
	(cd "$work" && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
}

# place copies a module to where it can be written to.
place() {
	from=$(download "$1")
	mkdir -p "$2"
	cp -R "$from/." "$2"
	chmod -R u+w "$2"
}

# copy puts a suite's module, or with git: the repository, in its place. A module leaves out those that are nested in
# it. Those that its go.mod replaces by a folder of its own are laid there, in the same version.
copy() {
	dir=$work/$1
	[ ! -d "$dir" ] || return 0
	case $2 in
	git:*)
		source=${2#git:}
		git -c advice.detachedHead=false clone -q --depth 1 -b "${source#*@}" "https://${source%@*}" "$dir"
		;;
	*)
		place "$2" "$dir"
		sed -n 's,^replace \([^ ]*\) => \./\([^ ]*\)$,\1 \2,p' "$dir/go.mod" | while read -r nested folder; do
			[ -d "$dir/$folder" ] || place "$nested@${2#*@}" "$dir/$folder"
		done
		;;
	esac
	grep -rl --include='*_test.go' 'DownloadBinaryAssets' "$dir" | while read -r file; do
		sed -i.orig -e '/DownloadBinaryAssets/d' -e 's/k8sVersion := os.Getenv/_ = os.Getenv/' "$file"
	done
}

# arguments prints how a suite leaves out what matches $1: names of tests in Go's way, anything else in Ginkgo's.
arguments() {
	case $1 in
	-) ;;
	Test*) printf -- '-test.skip=%s' "$1" ;;
	*) printf -- '-ginkgo.skip=%s' "$1" ;;
	esac
}

# passed prints how many specs a log tells of, or how many tests and their parts, if it is not Ginkgo's.
passed() {
	specs=$(sed -n 's/.*Ran \([0-9]*\) of [0-9]* Specs.*/\1/p' "$1" | tail -n 1)
	echo "${specs:-$(grep -c '^ *--- PASS' "$1" || true)}"
}

failed=0
tab=$(printf '\t')
suites=$(grep -v '^#' "$here/operators.txt")
while IFS=$tab read -r name module package count skip _; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	copy "$name" "$module"
	log=$work/$name$(echo "$package" | tr -c 'a-z0-9\n' _).log
	left=$(arguments "$skip")
	rc=0
	(cd "$work/$name/$package" && go test -vet=off -count=1 -timeout 30m -v . ${left:+-args "$left"}) >"$log" 2>&1 </dev/null || rc=$?
	[ "$(passed "$log")" -ge "$count" ] || rc=1
	[ $rc -eq 0 ] || failed=1
	printf '%-24s %-48s %s  %s of %s, log %s\n' "$name" "$package" "$([ $rc -eq 0 ] && echo ok || echo FAILED)" \
		"$(passed "$log")" "$count" "$log"
done <<END
$suites
END
exit $failed
