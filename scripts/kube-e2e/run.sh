#!/bin/sh
# Runs Kubernetes' own e2e tests against the stand-in of examples/kube, with Kubernetes' controllers
# and scheduler. kwok plays the kubelets, so no container runs.
#
#   DIR=directory scripts/kube-e2e/run.sh
#
# DIR       where to work: programs, logs, reports; what was built there before is used again; required
# SPECS     a file of names of specs (default specs.txt beside this file: those that passed with the
#           stand-in, and two that fail on purpose)
# FOCUS     regular expression: run these specs instead
# SKIP      regular expression: leave these out (default none)
# PROCS     how many specs run at once (default 8)
# SERVER    the program to test (default: builds examples/kube/kube-apiserver)
# ETCD      the binary of etcd, for a SERVER that needs one: the real kube-apiserver, as a control
# GATES     features to switch on, as of --feature-gates
# KNOWN     the failures that are known, with reasons (default known.txt beside this file); empty for none
#
# The first run compiles most of Kubernetes: that takes half an hour on two cores and 10 GB. Failed
# and passed specs are listed in DIR/failed.txt and DIR/passed.txt, with what they printed in
# DIR/log.txt. The exit code is 1 when a spec failed that is not known to.
set -eu

: "${DIR:?is not set: the directory to work in}"
version=36.3 kwok=v0.8.0
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$DIR/bin"
work=$(cd "$DIR" && pwd)
bin=$work/bin run=$work/run port=${PORT:-7443}

# module makes a module that requires what Kubernetes does, with its staging in the published versions.
module() {
	from=$(cd / && GOFLAGS='' go mod download -json "k8s.io/kubernetes@v1.$version" | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
	mkdir -p "$work/$1"
	sed -e "s,^module .*,module $1," -e "s,=> ./staging/src/\(k8s.io/.*\),=> \1 v0.$version," "$from/go.mod" >"$work/$1/go.mod"
	cat "$from/go.sum" >"$work/$1/go.sum"
	(cd "$work/$1" && go mod edit -require "k8s.io/kubernetes@v1.$version")
}

# build compiles all programs but the server, which is built with settings of its own.
build() (
	export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
	module kube
	module players
	release="-X k8s.io/component-base/version.gitVersion=v1.$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${version%.*}"
	for program in kubectl kube-controller-manager kube-scheduler; do
		go -C "$work/kube" build -trimpath -ldflags "-w $release" -o "$bin/$program" "k8s.io/kubernetes/cmd/$program"
	done
	go -C "$work/kube" test -c -vet=off -trimpath -ldflags "-w $release" -o "$bin/e2e.test" k8s.io/kubernetes/test/e2e
	go -C "$work/players" mod edit -require "sigs.k8s.io/kwok@$kwok"
	go -C "$work/players" build -trimpath -o "$bin/" sigs.k8s.io/kwok/cmd/kwok github.com/onsi/ginkgo/v2/ginkgo
	touch "$work/built"
)

# authority NAME makes a certificate authority.
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=$1" -keyout "$run/$1.key" -out "$run/$1.crt"
}

# certificate NAME AUTHORITY SUBJECT EXTENSION makes a certificate with its key.
certificate() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$3" -keyout "$run/$1.key" -out "$run/$1.csr"
	printf 'extendedKeyUsage=clientAuth,serverAuth\n%s\n' "$4" >"$run/$1.ext"
	openssl x509 -req -in "$run/$1.csr" -CA "$run/$2.crt" -CAkey "$run/$2.key" -CAcreateserial -days 30 -extfile "$run/$1.ext" -out "$run/$1.crt"
}

# credentials makes all keys, certificates and the kubeconfig.
credentials() {
	authority ca
	authority front-ca
	certificate server ca /CN=kube-apiserver 'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc'
	certificate admin ca /O=system:masters/CN=admin ''
	certificate front front-ca /CN=front-proxy-client ''
	openssl genrsa -out "$run/accounts.key" 2048
	openssl rsa -in "$run/accounts.key" -pubout -out "$run/accounts.pub"
	cat >"$run/kubeconfig" <<-END
		apiVersion: v1
		kind: Config
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:$port", certificate-authority: $run/ca.crt}}]
		users: [{name: u, user: {client-certificate: $run/admin.crt, client-key: $run/admin.key}}]
		contexts: [{name: x, context: {cluster: c, user: u}}]
		current-context: x
	END
}

pids=''
# start NAME PROGRAM ARGUMENT... starts a program, which ends with this one.
start() {
	name=$1
	shift
	"$@" >"$run/$name.log" 2>&1 &
	pids="$! $pids"
}

# until_ready waits until a command succeeds.
until_ready() {
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 240 ] || { echo "not ready: $*; logs are in $run" >&2; exit 1; }
		sleep 0.5
	done
}

# server starts the server, and etcd if it needs one.
server() {
	if [ -n "${ETCD:-}" ]; then
		start etcd "$ETCD" --data-dir "$run/etcd" --listen-client-urls "http://127.0.0.1:$((port + 1))" --advertise-client-urls "http://127.0.0.1:$((port + 1))" \
			--listen-peer-urls "http://127.0.0.1:$((port + 2))" --log-level warn
		set -- --etcd-servers "http://127.0.0.1:$((port + 1))"
	else
		set -- --data-dir "$run/data"
	fi
	start kube-apiserver "$SERVER" "$@" --bind-address 127.0.0.1 --secure-port "$port" --advertise-address 192.0.2.1 \
		--tls-cert-file "$run/server.crt" --tls-private-key-file "$run/server.key" --client-ca-file "$run/ca.crt" \
		--service-account-issuer https://kubernetes.default.svc --service-account-key-file "$run/accounts.pub" --service-account-signing-key-file "$run/accounts.key" \
		--requestheader-client-ca-file "$run/front-ca.crt" --requestheader-allowed-names front-proxy-client --requestheader-username-headers X-Remote-User \
		--requestheader-group-headers X-Remote-Group --requestheader-extra-headers-prefix X-Remote-Extra- \
		--proxy-client-cert-file "$run/front.crt" --proxy-client-key-file "$run/front.key" \
		--service-cluster-ip-range 10.96.0.0/16 --authorization-mode Node,RBAC --allow-privileged --enable-admission-plugins NodeRestriction \
		${GATES:+--feature-gates "$GATES" --runtime-config api/all=true}
	until_ready "$bin/kubectl" get --raw /readyz
}

# players starts controllers, scheduler and kubelets, and makes nodes.
players() {
	start kube-controller-manager "$bin/kube-controller-manager" --kubeconfig "$KUBECONFIG" --leader-elect=false --use-service-account-credentials --secure-port 0 \
		--service-account-private-key-file "$run/accounts.key" --root-ca-file "$run/ca.crt" --cluster-signing-cert-file "$run/ca.crt" \
		--cluster-signing-key-file "$run/ca.key" --node-monitor-grace-period 10m --service-cluster-ip-range 10.96.0.0/16 \
		--kube-api-qps 200 --kube-api-burst 400 ${GATES:+--feature-gates "$GATES"}
	start kube-scheduler "$bin/kube-scheduler" --kubeconfig "$KUBECONFIG" --leader-elect=false --secure-port 0 --kube-api-qps 200 --kube-api-burst 400 \
		${GATES:+--feature-gates "$GATES"}
	start kwok "$bin/kwok" --kubeconfig "$KUBECONFIG" --config "$here/stages.yaml" --manage-all-nodes --cidr 10.128.0.0/16 --node-ip 10.127.0.1
	for node in node-0 node-1 node-2; do
		"$bin/kubectl" create -f - <<-END >/dev/null
			{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$node", "labels": {"kubernetes.io/hostname": "$node", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
			 "status": {"capacity": {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"},
			            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}}}
		END
	done
	until_ready "$bin/kubectl" wait --for condition=Ready --timeout 1s node --all
	until_ready "$bin/kubectl" --namespace default get serviceaccount default
}

# states prints the names of specs of a state in a JUnit report.
states() {
	sed -n 's/^ *<testcase name="\([^"]*\)" classname=.* status="'"$1"'".*/\1/p' "$work/report.xml" | sed -e 's/^\[It\] //' -e 's/&#34;/"/g' \
		-e "s/&#39;/'/g" -e 's/&lt;/</g' -e 's/&gt;/>/g' -e 's/&amp;/\&/g' | sort
}

# wanted prints the regular expression of the specs to run.
wanted() {
	[ -z "${FOCUS:-}" ] || { echo "$FOCUS"; return; }
	grep -v '^#' "${SPECS:-$here/specs.txt}" | sed -e 's/[][\\.*^$(){}?+|]/\\&/g' -e 's/.*/ &$/' | paste -s -d '|'
}

# known says why a failure is known, and nothing if it is not. The file has lines of two fields, with
# a tab between them: an extended regular expression for the name of a spec, the reason.
known() {
	[ -n "$KNOWN" ] || return 0
	awk -F '\t' -v name="$1" '!/^#/ && name ~ $1 { print $2; exit }' "$KNOWN"
}

[ -e "$work/built" ] || build
KNOWN=${KNOWN-$here/known.txt}
if [ -z "${SERVER:-}" ]; then
	SERVER=$bin/kube-apiserver
	go -C "$root/examples/kube" build -o "$SERVER" ./kube-apiserver
fi
rm -rf "$run"
mkdir -p "$run"
export KUBECONFIG="$run/kubeconfig" PATH="$bin:$PATH"
trap 'kill $pids 2>/dev/null || true; wait' EXIT
trap 'exit 1' INT TERM
credentials >"$run/credentials.log" 2>&1
server
players

(cd "$work" && "$bin/ginkgo" -procs "${PROCS:-8}" -timeout "${LIMIT:-3h}" -no-color -keep-going -junit-report report.xml -output-dir "$work" \
	-focus "$(wanted)" -skip "${SKIP:-^\$}" "$bin/e2e.test" -- -kubeconfig "$KUBECONFIG" -provider skeleton -kubectl-path "$bin/kubectl" \
	-dump-logs-on-failure=false -disable-log-dump -num-nodes 3) >"$work/log.txt" 2>&1 || true
states passed >"$work/passed.txt"
states 'failed\|panicked\|timedout\|interrupted' >"$work/failed.txt"
unknown=0
while IFS= read -r name; do
	if [ -z "$(known "$name")" ]; then
		echo "    $name"
		unknown=$((unknown + 1))
	fi
done <"$work/failed.txt"
echo "$(wc -l <"$work/passed.txt") passed, $(wc -l <"$work/failed.txt") failed, $unknown of them unknown"
[ -s "$work/passed.txt" ] && [ $unknown -eq 0 ]
