#!/bin/sh
# Runs Kubernetes' own integration tests against the stand-in of examples/kube. The tests start a
# kube-apiserver in their own process; here they start the program instead, with the same flags.
#
#   DIR=directory scripts/kube-suites/run.sh [suite ...]
#
# DIR       where to work: copies of Kubernetes, the suites, logs; what was made there before is
#           used again; required
# RUN       an extended regular expression: the tests to run (default all)
# TIMEOUT   of one test, in seconds (default 150)
# SERVER    the program to test (default: builds examples/kube/kube-apiserver)
# ETCD      the URL of an etcd to store in: for the real kube-apiserver, as a control, and for tests of the
#           stand-in that look for objects of custom resources in etcd (extensions/conversion)
# KNOWN     the failures that are known, with reasons (default known.txt beside this file); empty for none
#
# A suite is a directory of test/integration in Kubernetes, or extensions or extensions/conversion:
# those of apiextensions-apiserver. Each test runs in a process of its own. Tests that speak to etcd
# themselves find one if etcd is in PATH, and fail either way: the stand-in has a store of its own.
#
# The exit code is 1 when a test failed that is not known to.
set -eu

: "${DIR:?is not set: the directory to work in}"
version=36.3
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
KNOWN=${KNOWN-$here/known.txt}
TIMEOUT=${TIMEOUT:-150}
mkdir -p "$DIR/suites" "$DIR/logs" "$DIR/tmp"
work=$(cd "$DIR" && pwd)

[ $# -gt 0 ] || set -- extensions extensions/conversion apiserver apiserver/apply apiserver/admissionwebhook \
	apiserver/anonymous apiserver/cel apiserver/certreload apiserver/discovery apiserver/flowcontrol apiserver/httpproxy \
	apiserver/oidc apiserver/openapi apiserver/peerproxy apiserver/podlogs apiserver/portforward apiserver/tracing \
	apimachinery auth certificates client clustertrustbundles configmap controlplane daemonset \
	defaulttolerationseconds deployment dryrun dualstack endpoints events evictions examples garbagecollector job kubelet metrics \
	namespace node objectmeta podcertificaterequests pods quota replicaset scale secrets service serviceaccount servicecidr serving statefulset \
	storageclasses storageversion storageversionmigrator tls ttlcontroller

# replace FILE START END TEXT puts a file's text in the place of the lines from START to before END.
replace() {
	awk -v start="$2" -v end="$3" -v text="$4" '
		!done && $0 == start { while ((getline line < text) > 0) print line; skip = done = 1 }
		skip && $0 == end { skip = 0 }
		!skip
		END { if (!done || skip) { print FILENAME ": not found: " (done ? end : start) > "/dev/stderr"; exit 1 } }
	' "$1" >"$1.new"
	mv "$1.new" "$1"
}

# imports FILE ADDED DROPPED changes what a file imports; DROPPED is a regular expression of paths.
imports() {
	awk -v added="$2" -v dropped="$3" '
		/^import \($/ { print; n = split(added, a, " "); for (i = 1; i <= n; i++) print "\t\"" a[i] "\""; inside = 1; next }
		/^\)$/ { inside = 0 }
		inside && $0 ~ "\"(" dropped ")\"$" { next }
		{ print }
	' "$1" >"$1.new"
	mv "$1.new" "$1"
}

# copied copies a module to a directory, where it may be changed.
copied() {
	from=$(cd / && GOFLAGS='' go mod download -json "$1" | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
	[ -n "$from" ] || { echo "$1 cannot be downloaded" >&2; exit 1; }
	rm -rf "$2"
	cp -R "$from" "$2"
	chmod -R u+w "$2"
}

# prepare copies Kubernetes, and lets its test servers start a program.
prepare() {
	extensions=$work/apiextensions kube=$work/kubernetes
	copied k8s.io/apiextensions-apiserver@v0.$version "$extensions"
	copied k8s.io/kubernetes@v1.$version "$kube"

	mkdir "$extensions/standin"
	cp "$here/standin.go.txt" "$extensions/standin/standin.go"
	cp "$here/hooks.go.txt" "$kube/test/integration/framework/standin_hooks.go"

	file=$extensions/pkg/cmd/server/testing/testserver.go
	replace "$file" '	if err := s.Complete(); err != nil {' '	// from here the caller must call tearDown' "$here/apiextensions.txt"
	sed -i -e 's/^\(	result.ClientConfig = \).*/\1cfg/' -e '/^	result.CompletedConfig = /d' "$file"
	imports "$file" k8s.io/apiextensions-apiserver/standin \
		'time|k8s.io/client-go/kubernetes|k8s.io/apimachinery/pkg/util/wait|.*/generated/openapi|.*/endpoints/openapi|k8s.io/apiserver/pkg/server|.*/util/openapi'

	# Stored objects of custom resources are found in etcd as storage/etcd writes them: a header, then JSON.
	file=$extensions/test/integration/storage/objectreader.go
	sed -i -e '/grpc.WithBlock(),/d' -e 's,^\(	key := path.Join("/"\, s.storagePrefix\, \)s.crd.Spec.Group\, s.crd.Spec.Names.Plural\, ns\, name)$,\1"d/r"\, url.PathEscape(s.crd.Spec.Group+"/"+s.crd.Spec.Names.Plural)) + "/" + ns + "/" + name,' \
		-e 's,KV.Get(context.Background()\, key),KV.Get(context.Background()\, key\, clientv3.WithPrefix()),' \
		-e 's,^	raw := resp.Kvs\[0\].Value$,	_\, raw\, _ := bytes.Cut(resp.Kvs[0].Value\, []byte("{\\"apiVersion\\""))\n	raw = append([]byte("{\\"apiVersion\\"")\, raw...),' "$file"
	imports "$file" 'bytes net/url' none

	file=$kube/cmd/kube-apiserver/app/testing/testserver.go
	replace "$file" '	completedOptions, err := s.Complete(tCtx)' \
		'	etcdClient, _, err := GetEtcdClients(storageConfig.Transport)' "$here/kubeapiserver.txt"
	sed -i '/^			grpc.WithBlock(),/d' "$file" # there may be no etcd
	imports "$file" 'strings k8s.io/apiextensions-apiserver/standin' \
		'context|k8s.io/apimachinery/pkg/(api/errors|apis/meta/v1|util/errors|util/wait)|k8s.io/client-go/kubernetes|k8s.io/kube-aggregator/pkg/apiserver|.*/kube-apiserver/app'

	file=$kube/test/integration/framework/test_server.go
	replace "$file" '	completedOptions, err := opts.Complete(ctx)' \
		'	kubeAPIServerClient, err := client.NewForConfig(kubeAPIServerClientConfig)' "$here/framework.txt"
	imports "$file" 'github.com/spf13/pflag k8s.io/apiextensions-apiserver/standin' \
		'net/http|time|k8s.io/apiextensions-apiserver/pkg/apiserver|k8s.io/apimachinery/pkg/(apis/meta/v1|runtime|util/errors|util/wait)|k8s.io/apiserver/pkg/server|.*/apiserver/scheme|.*/kube-apiserver/app|.*/api/legacyscheme|.*/controlplane/apiserver|.*/generated/openapi'

	file=$kube/test/integration/framework/etcd.go
	sed -i 's/^func startEtcd(.*{$/&\n	if _, err := getEtcdPath(); err != nil {\n		return func() {}, nil\n	}/' "$file"

	find "$kube/test/integration" -name '*.sh' ! -name '*not-executable*' -exec chmod +x {} + # the module cache has no such bits

	sed -i -e "s,=> ./staging/src/\(k8s.io/.*\),=> \1 v0.$version," "$kube/go.mod"
	sed -i -e 's,=> k8s.io/apiextensions-apiserver .*,=> ../apiextensions,' "$kube/go.mod"
	touch "$work/prepared"
}

# known says why a failure is known, and nothing if it is not. The file has lines of three fields,
# with tabs between them: a suite, an extended regular expression for the name of a test, the reason.
known() {
	[ -n "$KNOWN" ] || return 0
	awk -F '\t' -v suite="$1" -v name="$2" '$1 == suite && name ~ $2 { print $3; exit }' "$KNOWN"
}

# results lists the tests of a log that passed, or failed, without those that are made of others.
results() {
	awk -v wanted="$1" '
		/^ *--- (PASS|FAIL): / { state[$3] = substr($2, 1, 4) }
		END {
			for (name in state) for (parent = name; sub(/\/[^\/]*$/, "", parent);) failed[parent] += state[name] == "FAIL"
			for (name in state) if (state[name] == wanted && !(wanted == "FAIL" ? failed[name] : name in failed)) print name
		}'
}

# one runs a test of a suite, and ends what the test leaves running.
one() {
	setsid timeout -k 10 $((TIMEOUT + 20)) "$1" -test.v -test.run "^$2\$" -test.timeout "${TIMEOUT}s" &
	session=$!
	code=0
	wait $session || code=$?
	left=$(ps -o pid= -s $session || true)
	[ -z "$left" ] || kill $left || true
	rm -rf "$work/tmp"
	mkdir "$work/tmp"
	return $code
}

[ -e "$work/prepared" ] || prepare
if [ -z "${SERVER:-}" ]; then
	SERVER=$work/kube-apiserver
	go -C "$root/examples/kube" build -o "$SERVER" ./kube-apiserver
fi
export STANDIN="$SERVER" STANDIN_ETCD="${ETCD:-}" TMPDIR="$work/tmp"
if ! command -v etcd >/dev/null; then
	export KUBE_INTEGRATION_ETCD_URL="unix://$work/no-etcd.sock"
fi

passed=0 failed=0 expected=0
for suite; do
	case $suite in
	extensions*) package=k8s.io/apiextensions-apiserver/test/integration${suite#extensions} beside=$work/apiextensions/test/integration${suite#extensions} ;;
	*) package=k8s.io/kubernetes/test/integration/$suite beside=$work/kubernetes/test/integration/$suite ;;
	esac
	binary=$work/suites/$suite/$(basename "$beside").test # its name is a field manager
	logs=$work/logs/$suite
	mkdir -p "$logs" "$(dirname "$binary")"
	p=0 f=0 e=0
	[ -x "$binary" ] || (cd "$work/kubernetes" && GOFLAGS=-mod=mod GOWORK=off TMPDIR= go test -c -o "$binary" "$package") >"$logs/build.txt" 2>&1 || {
		printf '%-28s does not build: %s\n' "$suite" "$logs/build.txt"
		failed=$((failed + 1))
		continue
	}
	tests=$(cd "$beside" && "$binary" -test.list . 2>/dev/null | grep -E '^Test' | grep -E "${RUN:-.}") || continue
	: >"$logs/new"
	for name in $tests; do
		code=0
		(cd "$beside" && one "$binary" "$name") >"$logs/$name.txt" 2>&1 || code=$?
		p=$((p + $(results PASS <"$logs/$name.txt" | wc -l)))
		results FAIL <"$logs/$name.txt" | sort >"$logs/failures"
		[ -s "$logs/failures" ] || [ $code -eq 0 ] || echo "$name" >"$logs/failures"
		while IFS= read -r failure; do
			f=$((f + 1))
			if [ -n "$(known "$suite" "$failure")" ]; then e=$((e + 1)); else echo "$failure" >>"$logs/new"; fi
		done <"$logs/failures"
	done
	printf '%-28s %5d passed %5d failed %5d of them known\n' "$suite" "$p" "$f" "$e"
	sed 's/^/    /' "$logs/new"
	rm -f "$logs/new" "$logs/failures"
	passed=$((passed + p)) failed=$((failed + f)) expected=$((expected + e))
done
printf '%-28s %5d passed %5d failed %5d of them known\n' all "$passed" "$failed" "$expected"
[ "$failed" -eq "$expected" ]
