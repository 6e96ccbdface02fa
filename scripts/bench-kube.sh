#!/usr/bin/env bash
# Measures our server on bbolt beside a kube-apiserver and its etcd that are started for it and stopped afterwards. The
# arguments go to bench; see bench/README.md.
#
# PEERS_SCRIPTS names a directory with start-kube-apiserver.sh, which prints lines BASE=https://…, TOKEN=… and PIDS=1,2,
# and stop-kube-apiserver.sh. How they come by their binaries is their business.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${PEERS_SCRIPTS:?name the directory with start-kube-apiserver.sh and stop-kube-apiserver.sh}"
started=$("$PEERS_SCRIPTS/start-kube-apiserver.sh")
trap '"$PEERS_SCRIPTS/stop-kube-apiserver.sh"' EXIT
value() { sed -n "s/^$1=//p" <<<"$started"; }

go -C bench run . -backend bbolt -shape both -peer "$(value BASE)" -peer-name kube-apiserver -peer-token "$(value TOKEN)" \
	-peer-pid "$(value PIDS)" -peer-insecure -peer-install "$@"
