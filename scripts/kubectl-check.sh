#!/usr/bin/env bash
# Runs a real kubectl against the example server and looks at what it prints.
#
#   KUBECTL=/path/to/kubectl scripts/kubectl-check.sh
#
# It prints a line for each check and, for one that failed, what was run and printed. It needs Go, and kubectl 1.31 or
# newer. The server runs on a free port in a directory that is removed at the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

KUBECTL=$(command -v "${KUBECTL:-}") || {
    echo "KUBECTL must be the path of a kubectl to check with" >&2
    exit 2
}

work=$(mktemp -d) || exit 1
go build -o "$work/server" ./examples/server || exit 1
server=
trap 'finish' EXIT
trap 'exit 130' INT TERM
finish() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null
    rm -rf "$work"
}

# Nothing of the user's own is read or written.
unset KUBECONFIG EDITOR VISUAL
export HOME=$work/home KUBECACHEDIR=$work/cache KUBE_EDITOR=false
mkdir -p "$HOME"

cat >"$work/tokens.csv" <<'END'
reader-token,reader,u-1,"readers"
END

touch "$work/out"
"$work/server" --listen 127.0.0.1:0 --data-dir "$work/data" --token-auth-file "$work/tokens.csv" >"$work/out" 2>"$work/err" &
server=$!
for _ in {1..300}; do
    grep -q 'kubectl --kubeconfig' "$work/out" && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
config=$(sed -n 's/.*kubectl --kubeconfig \([^ ]*\) .*/\1/p' "$work/out")
if [ -z "$config" ]; then
    echo "the server did not start:" && cat "$work/out" "$work/err"
    exit 1
fi

k() { "$KUBECTL" --kubeconfig "$config" --request-timeout=60s "$@"; }

checks=0
failures=0

# check NAME [EXPECTATION...] -- COMMAND... runs a command whose output must match each extended regular expression, or,
# after "!", must not; "exit=N" asks for another exit code than 0.
check() {
    local name=$1 code=0 want=0 output e
    local -a expected=() faults=()
    shift
    while [ "$1" != -- ]; do
        expected+=("$1")
        shift
    done
    shift
    output=$("$@" 2>&1 </dev/null)
    code=$?
    for e in "${expected[@]}"; do
        case $e in
            exit=*) want=${e#exit=} ;;
            !*) ! grep -Eq -e "${e#!}" <<<"$output" || faults+=("it shows ${e#!}") ;;
            *) grep -Eq -e "$e" <<<"$output" || faults+=("it does not show $e") ;;
        esac
    done
    [ "$code" -eq "$want" ] || faults+=("exit code $code, not $want")
    checks=$((checks + 1))
    if [ ${#faults[@]} -eq 0 ]; then
        echo "ok    $name"
        return
    fi
    failures=$((failures + 1))
    echo "FAIL  $name"
    printf '      %s\n' "${faults[@]}" "ran: $*" "it printed:"
    sed 's/^/      | /' <<<"$output"
}

# eventually COMMAND... repeats a command until it succeeds, for at most 20 seconds.
eventually() {
    for _ in {1..100}; do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    "$@"
}

manifests() {
    mkdir -p "$work/m"
    cat >"$work/m/alpha.yaml" <<'END'
apiVersion: example.dev/v1
kind: Widget
metadata:
  name: alpha
  labels: {app: shop, tier: front}
spec:
  size: 3
  owner: ann
  parts:
  - name: wheel
    count: 4
    tags: [round, black]
  notes: {made: here}
END
    cat >"$work/m/beta.json" <<'END'
{"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "beta", "labels": {"app": "shop", "tier": "back"}}, "spec": {"size": 7, "color": "red"}}
END
    cat >"$work/m/many.yaml" <<'END'
apiVersion: example.dev/v1
kind: Gadget
metadata: {name: one}
data: {a: "1"}
---
apiVersion: example.dev/v1
kind: Gadget
metadata: {name: two}
immutable: true
data: {a: "2"}
---
apiVersion: example.dev/v1
kind: Zone
metadata: {name: north}
spec: {region: far}
END
    cat >"$work/m/generated.yaml" <<'END'
apiVersion: example.dev/v1
kind: Gadget
metadata: {generateName: made-}
END
    cat >"$work/m/held.yaml" <<'END'
apiVersion: example.dev/v1
kind: Widget
metadata: {name: held, finalizers: [example.dev/hold]}
spec: {size: 1}
END
    cat >"$work/m/wrong.yaml" <<'END'
apiVersion: example.dev/v1
kind: Widget
metadata: {name: wrong}
spec: {size: 5000, color: pink}
END
    cat >"$work/m/typo.yaml" <<'END'
apiVersion: example.dev/v1
kind: Widget
metadata: {name: typo}
spec: {size: 5, colour: red}
END
    cat >"$work/m/applied.yaml" <<'END'
apiVersion: example.dev/v1
kind: Widget
metadata:
  name: applied
  labels: {from: file}
spec:
  size: 10
  owner: cleo
  notes: {a: "1", b: "2"}
END
    cat >"$work/m/room.yaml" <<'END'
apiVersion: v1
kind: Namespace
metadata: {name: room, labels: {purpose: test}}
END
}

discovery() {
    check "api-resources" '^widgets +wd +example\.dev/v1 +true +Widget$' '^zones +example\.dev/v1 +false +Zone$' '^namespaces +ns +v1 +false +Namespace$' -- k api-resources
    check "api-resources --verbs" '^gadgets' '!subjectreviews' -- k api-resources --verbs=list,watch,deletecollection
    check "api-resources --categories" '^widgets ' '!gadgets' -- k api-resources --categories=all
    check "api-resources -o wide" 'create,delete,deletecollection,get,list,patch,update,watch +all$' -- k api-resources -o wide --api-group=example.dev
    check "api-versions" '^example\.dev/v1$' '^v1$' -- k api-versions
    check "version" '^Server Version: v1\.[0-9]+\.' -- k version
    check "explain widget" '^KIND: +Widget$' 'desired and an observed state|^ +spec.*<Object> -required-$' -- k explain widget
    check "explain widget.spec --recursive" '^ +size.<integer> -required-$' '^ +enum: red, green, blue$' '^ +tags.<\[\]string>$' '^ +notes.<map\[string\]string>$' -- k explain widget.spec --recursive
    check "explain wd.spec.color" '^FIELD: color <string>$' 'The paint\.' '^ENUM:$' '^    green$' -- k explain wd.spec.color
    check "explain zone.spec.region" '^FIELD: region <string>$' -- k explain zone.spec.region
    check "explain widget.nonsense" 'exit=1' 'field "nonsense" does not exist' -- k explain widget.nonsense
    check "get --raw /readyz?verbose" '^\[\+\]ping ok$' '^\[\+\]etcd ok$' '^readyz check passed' '!^\[-\]' -- k get --raw '/readyz?verbose'
    check "get --raw /livez" '^ok' -- k get --raw /livez
    check "cluster-info" 'exit=1' 'resource type "services"' -- k cluster-info # there are none, and kubectl says so
}

creating() {
    check "create -f yaml" '^widget\.example\.dev/alpha created$' -- k create -f "$work/m/alpha.yaml"
    check "create -f json" '^widget\.example\.dev/beta created$' -- k create -f "$work/m/beta.json"
    check "create -f of several documents" '^gadget\.example\.dev/one created$' '^gadget\.example\.dev/two created$' '^zone\.example\.dev/north created$' -- k create -f "$work/m/many.yaml"
    check "create -f with generateName" '^gadget\.example\.dev/made-[a-z0-9]{5} created$' -- k create -f "$work/m/generated.yaml"
    check "create -f again" 'exit=1' 'AlreadyExists.*widgets\.example\.dev "alpha" already exists' -- k create -f "$work/m/alpha.yaml"
    check "create -f with wrong values" 'exit=1' 'The Widget "wrong" is invalid' 'spec\.size: Invalid value: 5000' 'spec\.color: Unsupported value: "pink"' -- k create -f "$work/m/wrong.yaml"
    check "create -f with an unknown field" 'exit=1' 'unknown field "spec\.colour"' -- k create -f "$work/m/typo.yaml"
    check "create -f --validate=warn" 'Warning: unknown field "spec\.colour"' 'widget\.example\.dev/typo created \(server dry run\)' -- k create --validate=warn --dry-run=server -f "$work/m/typo.yaml"
    check "create --dry-run=server stores nothing" 'exit=1' 'NotFound' -- k get widget typo
    check "create in a namespace that is not there" 'exit=1' 'namespaces "nowhere" not found' -- k create -n nowhere -f "$work/m/alpha.yaml"
}

getting() {
    check "get" '^NAME +SIZE +COLOR +PHASE +AGE$' '^alpha +3 +blue +[0-9]+s$' '^beta +7 +red +[0-9]+s$' -- k get widgets
    check "get by short name and name" '^alpha +3 ' '!beta' -- k get wd alpha
    check "get TYPE/NAME" '^beta +7 ' '^north|^alpha' -- k get widget/beta widget/alpha
    check "get of a cluster-scoped kind" '^NAME +REGION +AGE$' '^north +far ' -- k get zones
    check "get of a kind without columns" '^NAME +(AGE|CREATED AT)$' '^one ' '^two ' -- k get gadgets
    check "get -o yaml" '^  color: blue$' '^  - count: 4$' '^  generation: 1$' '^  resourceVersion: "[0-9]+"$' '^  uid: [0-9a-f-]{36}$' -- k get widget alpha -o yaml
    check "get -o json of a list" '"kind": "List"' '"name": "beta"' -- k get widgets -o json
    check "get -o name" '^widget\.example\.dev/alpha$' '^widget\.example\.dev/beta$' -- k get widgets -o name
    check "get -o jsonpath" '^3 7$' -- k get widgets -o 'jsonpath={.items[*].spec.size}'
    check "get -o custom-columns" '^alpha +ann$' -- k get widgets -o custom-columns=N:.metadata.name,O:.spec.owner
    check "get -o wide" '^NAME +SIZE +COLOR +PHASE +AGE' '^alpha +3 +blue' -- k get widgets -o wide
    check "get --show-labels" 'app=shop,tier=front$' -- k get widgets --show-labels
    check "get -L" '^beta .* back$' -- k get widgets -L tier
    check "get --sort-by" '^alpha' '^beta' -- k get widgets --sort-by=.spec.size
    check "get -A" '^NAMESPACE +NAME +SIZE' '^default +alpha ' -- k get widgets -A
    check "get -l" '^beta ' '!alpha' -- k get widgets -l app=shop,tier!=front
    check "get -l with a set" '^alpha ' '!beta' -- k get widgets -l 'tier in (front, side)'
    check "get --field-selector metadata.name" '^beta ' '!alpha' -- k get widgets --field-selector metadata.name=beta
    check "get --field-selector spec.owner" '^alpha ' '!beta' -- k get widgets --field-selector spec.owner=ann
    check "get --field-selector of an unknown field" 'exit=1' 'BadRequest.*spec\.size' -- k get widgets --field-selector spec.size=3
    check "get --chunk-size" '^alpha ' '^beta ' -- k get widgets --chunk-size=1
    check "get all" '^alpha ' '^beta ' '!^one ' -- k get all
    check "get all -A" '^default +alpha ' -- k get all -A
    check "get of several kinds" 'widget\.example\.dev/alpha' 'zone\.example\.dev/north' -- k get widgets,zones
    check "get of nothing" 'No resources found in kube-public namespace' -- k get widgets -n kube-public
    check "get of what is not there" 'exit=1' 'NotFound.*widgets\.example\.dev "none" not found' -- k get widget none
    check "get of a kind that is not there" 'exit=1' "doesn't have a resource type" -- k get wodgets
    check "get -f" '^alpha ' -- k get -f "$work/m/alpha.yaml"
    check "get ns" '^default +Active ' '^kube-system +Active ' -- k get ns
    check "describe" '^Name: +alpha$' '^Labels: +app=shop$' '^  Owner: +ann$' '^      round$' '^Events: +<none>$' -- k describe widget alpha
    check "describe of a namespace" '^Name: +default$' '^Status: +Active$' -- k describe ns default
    check "create clusterrolebinding" 'readers created' -- k create clusterrolebinding readers --clusterrole=example.dev:view --group=readers
    check "get --token" '^alpha ' -- "$KUBECTL" --kubeconfig /dev/null --server "$(k config view -o 'jsonpath={.clusters[0].cluster.server}')" \
        --certificate-authority "$work/data/ca.crt" --token reader-token -n default get widgets
}

# watching follows the widgets while some change, and prints what kubectl printed meanwhile.
watching() {
    local pid
    k get widgets -l watched=yes -w -o "jsonpath={.metadata.name} {.spec.size}{'\n'}" >"$work/watch" 2>&1 &
    pid=$!
    k get widgets -w --output-watch-events --field-selector metadata.name=seen >"$work/watch-events" 2>&1 &
    local table=$!
    sleep 1 # there is nothing to see before the first event
    sed 's/name: alpha/name: seen/; s/app: shop/watched: "yes"/' "$work/m/alpha.yaml" >"$work/m/seen.yaml"
    k create -f "$work/m/seen.yaml"
    k patch widget seen --type=merge -p '{"spec":{"size":44}}'
    k label widget seen watched=no --overwrite
    k delete widget seen
    eventually grep -q DELETED "$work/watch-events"
    eventually grep -q 'seen 44' "$work/watch"
    kill "$pid" "$table"
    wait "$pid" "$table" 2>/dev/null
    sed 's/^/plain: /' "$work/watch"
    sed 's/^/table: /' "$work/watch-events"
}

# quiet_watch sees that a watch goes on although nothing happens: kubectl does not end before it is interrupted.
quiet_watch() {
    timeout -s INT 5 "$KUBECTL" --kubeconfig "$config" get widgets --watch-only
}

changing() {
    check "get -w" '^plain: seen 3$' '^plain: seen 44$' '^table: EVENT +NAME +SIZE' '^table: ADDED +seen +3 ' '^table: MODIFIED +seen +44 ' '^table: DELETED +seen +44 ' -- watching
    check "get --watch-only" 'exit=124' '!.' -- quiet_watch
    check "label" 'widget\.example\.dev/alpha labeled' -- k label widget alpha colour=none
    check "label again needs --overwrite" 'exit=1' "already has a value" -- k label widget alpha colour=some
    check "label --overwrite" 'labeled' -- k label widget alpha colour=some --overwrite
    check "label -l" 'widget\.example\.dev/alpha labeled' 'widget\.example\.dev/beta labeled' -- k label widgets -l app=shop seen=yes
    check "label KEY-" 'unlabeled' -- k label widget alpha colour-
    check "labels have changed" 'app=shop,seen=yes,tier=front$' '!colour' -- k get widget alpha --show-labels
    check "label with a value that is none" 'exit=1' 'invalid label value|Invalid value' -- k label widget alpha 'bad=no spaces'
    check "annotate" 'annotated' -- k annotate widget alpha example.dev/why='because of this'
    check "annotation is there" '^because of this$' -- k get widget alpha -o 'jsonpath={.metadata.annotations.example\.dev/why}'
    check "annotate KEY-" 'annotated' -- k annotate widget alpha example.dev/why-

    cat >"$work/editor" <<'END'
#!/bin/sh
sed -i.bak -e 's/^  size: .*/  size: 55/' -e 's/^  color: .*/  color: green/' "$1"
END
    chmod +x "$work/editor"
    check "edit" 'widget\.example\.dev/alpha edited' -- env KUBE_EDITOR="$work/editor" "$KUBECTL" --kubeconfig "$config" edit widget alpha
    check "edit has changed it" '^55 green 2$' -- k get widget alpha -o 'jsonpath={.spec.size} {.spec.color} {.metadata.generation}'
    check "edit without a change" 'Edit cancelled, no changes made' -- env KUBE_EDITOR=true "$KUBECTL" --kubeconfig "$config" edit widget alpha

    check "patch --type=json" 'widget\.example\.dev/alpha patched$' -- k patch widget alpha --type=json -p '[{"op":"test","path":"/spec/size","value":55},{"op":"replace","path":"/spec/size","value":66},{"op":"add","path":"/spec/notes/new","value":"yes"}]'
    check "patch --type=json whose test fails" 'exit=1' '[Tt]est' -- k patch widget alpha --type=json -p '[{"op":"test","path":"/spec/size","value":1},{"op":"remove","path":"/spec/notes"}]'
    check "patch --type=merge" 'patched$' -- k patch widget alpha --type=merge -p '{"spec":{"notes":{"made":null,"sold":"there"}}}'
    check "patches have changed it" '^66 \{"new":"yes","sold":"there"\}$' -- k get widget alpha -o 'jsonpath={.spec.size} {.spec.notes}'
    check "patch without a change" 'patched \(no change\)$' -- k patch widget alpha --type=merge -p '{"spec":{"size":66}}'
    check "patch --type=strategic" 'exit=0' 'patched' -- k patch widget alpha --type=strategic -p '{"spec":{"notes":{"strategic":"yes"}}}'
    check "patch to a wrong value" 'exit=1' 'spec\.size: Invalid value: 0' -- k patch widget alpha --type=merge -p '{"spec":{"size":0}}'
    check "patch of a sealed gadget" 'exit=1' 'immutable' -- k patch gadget two --type=merge -p '{"data":{"a":"3"}}'

    check "patch --subresource=status" 'patched$' -- k patch widget alpha --subresource=status --type=merge -p '{"status":{"phase":"Ready","conditions":[{"type":"Ready","status":"True"}]},"spec":{"size":1}}'
    check "the status has changed and nothing else" '^alpha +66 +green +Ready ' -- k get widget alpha
    check "get --subresource=status" '^    type: Ready$' -- k get widget alpha --subresource=status -o yaml
    check "patch leaves the status alone" '^Ready$' -- sh -c '"$0" --kubeconfig "$1" patch widget alpha --type=merge -p "{\"status\":{\"phase\":\"Lost\"}}" >/dev/null && "$0" --kubeconfig "$1" get widget alpha -o "jsonpath={.status.phase}"' "$KUBECTL" "$config"

    k get widget beta -o json | sed 's/"size": 7/"size": 8/' >"$work/m/beta2.json"
    check "replace" 'widget\.example\.dev/beta replaced$' -- k replace -f "$work/m/beta2.json"
    check "replace has changed it" '^beta +8 ' -- k get widget beta
    check "replace of an old version" 'exit=1' 'Conflict.*the object has been modified' -- k replace -f "$work/m/beta2.json"
    check "replace of what is not there" 'exit=1' 'NotFound' -- k replace -f "$work/m/typo.yaml" --validate=ignore
    check "replace --force" 'widget\.example\.dev "?beta"? deleted' 'widget\.example\.dev/beta replaced' -- k replace --force -f "$work/m/beta.json"
}

# waiting starts to wait, changes the object, and tells what came of it.
waiting() {
    k wait widget/beta --for=jsonpath='{.status.phase}'=Done --timeout=20s &
    local pid=$!
    sleep 1
    k patch widget beta --subresource=status --type=merge -p '{"status":{"phase":"Done"}}'
    wait "$pid"
}

# wait_delete waits for an object to go while it is held, then lets it go.
wait_delete() {
    k wait widget/held --for=delete --timeout=20s &
    local pid=$!
    sleep 1
    k patch widget held --type=merge -p '{"metadata":{"finalizers":null}}'
    wait "$pid"
}

applying() {
    check "apply -f creates" 'widget\.example\.dev/applied created$' -- k apply -f "$work/m/applied.yaml"
    check "apply -f again" 'widget\.example\.dev/applied unchanged$' -- k apply -f "$work/m/applied.yaml"
    k patch widget applied --type=merge -p '{"spec":{"color":"green","notes":{"c":"3"}}}' >/dev/null
    sed -i.bak -e 's/size: 10/size: 11/' -e 's/a: "1", //' "$work/m/applied.yaml"
    check "diff" 'exit=1' '^-  size: 10$' '^\+  size: 11$' -- k diff -f "$work/m/applied.yaml"
    check "apply -f changes" 'widget\.example\.dev/applied configured$' -- k apply -f "$work/m/applied.yaml"
    check "apply keeps what others set and removes what it had set" '^11 green \{"b":"2","c":"3"\}$' -- k get widget applied -o 'jsonpath={.spec.size} {.spec.color} {.spec.notes}'
    check "apply of a directory" 'zone\.example\.dev/north (unchanged|configured)' -- k apply -f "$work/m/many.yaml"
    check "apply view-last-applied" '^  size: 11$' -- k apply view-last-applied widget applied
}

deleting() {
    check "wait --for=jsonpath" 'widget\.example\.dev/beta condition met' -- waiting
    check "wait that is met already" 'condition met' -- k wait widget/beta --for=jsonpath='{.spec.size}'=7 --timeout=10s
    check "wait --for=condition" 'condition met' -- k wait widget/alpha --for=condition=Ready --timeout=10s
    check "wait that times out" 'exit=1' 'timed out' -- k wait widget/beta --for=jsonpath='{.status.phase}'=Never --timeout=1s
    check "delete" 'widget\.example\.dev "applied" deleted' -- k delete widget applied
    check "delete of what is not there" 'exit=1' 'NotFound' -- k delete widget applied
    check "delete --ignore-not-found" '!rror' -- k delete widget applied --ignore-not-found
    k create -f "$work/m/held.yaml" >/dev/null
    check "delete of what a finalizer holds" 'widget\.example\.dev "held" deleted' -- k delete widget held --wait=false
    check "it is still there" '^[0-9]{4}-.* \["example\.dev/hold"\]$' -- k get widget held -o 'jsonpath={.metadata.deletionTimestamp} {.metadata.finalizers}'
    check "a new finalizer is refused" 'exit=1' 'no new finalizers can be added' -- k patch widget held --type=merge -p '{"metadata":{"finalizers":["example.dev/hold","example.dev/more"]}}'
    check "wait --for=delete" 'condition met' -- wait_delete
    check "it is gone" 'exit=1' 'NotFound' -- k get widget held
    check "delete -l" '"beta" deleted' '!alpha' -- k delete widgets -l tier=back
    check "delete -f" '"one" deleted' '"north" deleted' -- k delete -f "$work/m/many.yaml"
    check "delete --all" 'widget\.example\.dev "alpha" deleted' -- k delete widgets --all
    check "delete --all of two kinds" 'gadget\.example\.dev "made-' -- k delete widgets,gadgets --all
    check "nothing is left" 'No resources found' -- k get widgets,gadgets
    check "delete --raw of a collection" '"status":"Success"' -- k delete --raw /apis/example.dev/v1/namespaces/default/widgets
}

scaling() {
    k create -f "$work/m/alpha.yaml" -f "$work/m/beta.json" >/dev/null
    check "scale" '^widget\.example\.dev/alpha scaled$' -- k scale widget alpha --replicas=3
    check "scale of several" 'alpha scaled$' 'beta scaled$' -- k scale widgets/alpha widgets/beta --replicas=4
    check "scale --all" 'alpha scaled$' 'beta scaled$' -- k scale widgets --all --replicas=5
    check "scale -f" 'beta scaled$' '!alpha' -- k scale --replicas=2 -f "$work/m/beta.json"
    check "scale has changed them" '^5 2$' -- k get widgets -o 'jsonpath={.items[*].spec.replicas}'
    check "scale --current-replicas" 'scaled$' -- k scale widget alpha --current-replicas=5 --replicas=6
    check "scale --current-replicas of another number" 'exit=1' 'Expected replicas to be 5, was 6' -- k scale widget alpha --current-replicas=5 --replicas=7
    check "scale --resource-version of old" 'exit=1' 'Expected resource version to be 1' -- k scale widget alpha --resource-version=1 --replicas=7
    check "scale --dry-run=server" 'scaled \(server dry run\)' -- k scale widget alpha --replicas=9 --dry-run=server
    check "get --subresource=scale" '^NAME +DESIRED +AVAILABLE +AGE$' '^alpha +6 +0 ' -- k get widget alpha --subresource=scale
    check "patch --subresource=scale" 'patched$' -- k patch widget alpha --subresource=scale --type=merge -p '{"spec":{"replicas":8}}'
    check "patch --subresource=scale to a wrong value" 'exit=1' 'spec\.replicas: Invalid value: -1' -- k patch widget alpha --subresource=scale --type=merge -p '{"spec":{"replicas":-1}}'
    check "get --raw of a scale" '"apiVersion":"autoscaling/v1"' '"replicas":8' -- k get --raw /apis/example.dev/v1/namespaces/default/widgets/alpha/scale
    k get widget alpha --subresource=scale -o json | sed 's/"replicas": 8/"replicas": 9/' >"$work/m/scale.json"
    check "replace --raw of a scale" '"replicas":9' -- k replace --raw /apis/example.dev/v1/namespaces/default/widgets/alpha/scale -f "$work/m/scale.json"
    check "replace --raw of an old scale" 'exit=1' 'Conflict|modified' -- k replace --raw /apis/example.dev/v1/namespaces/default/widgets/alpha/scale -f "$work/m/scale.json"
    check "scale of a kind that has none" 'exit=1' 'rror' -- k scale zone north --replicas=1
    k patch widget alpha --subresource=status --type=merge -p '{"status":{"phase":"New"}}' >/dev/null
    check "edit --subresource=status" 'alpha edited' -- env KUBE_EDITOR="sed -i.bak s/New$/Edited/" "$KUBECTL" --kubeconfig "$config" edit widget alpha --subresource=status
}

# owned makes a gadget that a widget owns.
owned() {
    local uid
    uid=$(k get widget "$1" -o 'jsonpath={.metadata.uid}')
    k create -f - <<END
apiVersion: example.dev/v1
kind: Gadget
metadata:
  name: of-$1
  ownerReferences: [{apiVersion: example.dev/v1, kind: Widget, name: $1, uid: $uid, blockOwnerDeletion: true}]
END
}

no_gadget() { ! k get gadget "of-$1"; }

cascading() {
    owned alpha >/dev/null && owned beta >/dev/null
    check "delete --cascade=orphan" '"beta" deleted' -- k delete widget beta --cascade=orphan
    check "an orphan stays, and has no owner" '^of-beta $' -- k get gadget of-beta -o 'jsonpath={.metadata.name} {.metadata.ownerReferences}'
    check "delete --cascade=background" '"alpha" deleted' -- k delete widget alpha --cascade=background
    check "what was owned goes after it" '!.' -- eventually no_gadget alpha
    k create -f "$work/m/alpha.yaml" >/dev/null && owned alpha >/dev/null
    check "delete --cascade=foreground" '"alpha" deleted' -- k delete widget alpha --cascade=foreground
    check "what was owned went before it" 'exit=1' 'NotFound' -- k get gadget of-alpha
    check "delete --now" '"of-beta" deleted' -- k delete gadget of-beta --now
    k create -f "$work/m/alpha.yaml" -f "$work/m/beta.json" >/dev/null
    check "delete --grace-period" '"alpha" deleted' -- k delete widget alpha --grace-period=30
    check "delete --force" 'Immediate deletion does not wait' '"beta" force deleted' -- k delete widget beta --force
}

# end_held_namespace deletes a namespace whose content a finalizer holds, shows it waiting, and lets it go.
end_held_namespace() {
    k delete ns room --wait=false
    eventually sh -c '"$0" --kubeconfig "$1" get ns room -o yaml | grep -q SomeFinalizersRemain' "$KUBECTL" "$config"
    k get ns room
    k create -n room -f "$work/m/alpha.yaml"
    k patch -n room widget held --type=merge -p '{"metadata":{"finalizers":[]}}'
    k wait --for=delete ns/room --timeout=20s && k get widgets -n room
}

namespaces() {
    check "create ns" 'namespace/hall created' -- k create ns hall
    check "create ns again" 'exit=1' 'AlreadyExists' -- k create ns hall
    check "create -f of a namespace" 'namespace/room created' -- k create -f "$work/m/room.yaml"
    check "namespace is active" '^Active \["kubernetes"\] room$' -- k get ns room -o 'jsonpath={.status.phase} {.spec.finalizers} {.metadata.labels.kubernetes\.io/metadata\.name}'
    check "create -n" 'created' -- k create -n hall -f "$work/m/alpha.yaml" -f "$work/m/beta.json"
    check "get -A shows namespaces" '^hall +beta ' -- k get widgets -A
    check "get ns -l" '^room ' '!hall' -- k get ns -l purpose=test
    check "label ns" 'namespace/room labeled' -- k label ns room purpose=other --overwrite
    check "delete ns with content" 'namespace "hall" deleted' -- k delete ns hall --timeout=30s
    check "namespace is gone" 'exit=1' 'NotFound' -- k get ns hall
    check "content is gone" '!hall' -- k get widgets -A
    k create -n room -f "$work/m/held.yaml" >/dev/null
    check "delete ns whose content is held" '^room +Terminating' 'because it is being terminated' 'No resources found in room' -- end_held_namespace
    check "delete of a namespace that must stay" 'exit=1' 'Forbidden' -- k delete ns kube-system
}

access() {
    check "auth can-i" '^yes$' -- k auth can-i create widgets
    check "auth can-i of a subresource" '^yes$' -- k auth can-i update widgets --subresource=status -n kube-public
    check "auth can-i of a path" '^yes$' -- k auth can-i get /readyz
    check "auth whoami" '^Username +admin$' 'system:masters' -- k auth whoami
    check "auth whoami with a token" '^Username +reader$' '^UID +u-1$' 'readers' -- "$KUBECTL" --kubeconfig /dev/null \
        --server "$(k config view -o 'jsonpath={.clusters[0].cluster.server}')" --certificate-authority "$work/data/ca.crt" --token reader-token auth whoami
    check "a token that nobody has" 'exit=1' 'Unauthorized|must be logged in' -- "$KUBECTL" --kubeconfig /dev/null \
        --server "$(k config view -o 'jsonpath={.clusters[0].cluster.server}')" --certificate-authority "$work/data/ca.crt" --token no-token get widgets
}

manifests
discovery
creating
getting
changing
applying
deleting
scaling
cascading
namespaces
access
check "the server had nothing to complain about" '!.' -- cat "$work/err"

if [ "$failures" -gt 0 ]; then
    echo "$failures of $checks checks failed"
    exit 1
fi
