# The modules of this repository, from the file that says why each exists.
MODULES := $(shell awk '{ sub(/\#.*/, "") } NF { print $$1 }' allmodules)

# The packages whose tests take a number of random histories.
LONG = $(shell grep -l 'flag.Int."seeds"' storage/*/*_test.go | xargs -n1 dirname | sort -u | sed 's,^,./,')

.DEFAULT_GOAL := help
.PHONY: help test check lint fmt bench bench-run kinds-scale crds-scale memory walks bench-peer bench-kube fuzz long move-scale restores soak kinds-churn crds-churn differential planted versions-long rbac pairs cluster-requirements cluster-clients cluster-soak cluster-faults histories attack audit-torture memory-search body-search memory-load faults failing-store apply-long cel-oracle cel-definition crd-corpus crd-oracle crash crash-lab kubectl-check extension-kube controllers-envtest controller-runtime kube-suites kube-validation test-cmd operators policies measure release release-check tools kube-e2e documents

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## the tests of every module
	@for dir in $(MODULES); do echo "-- $$dir"; go -C $$dir test ./... || exit 1; done

check: ## what CI runs: everything below but the benchmarks, with the race detector; under 40 minutes
	.ci/run

lint: ## formatting, vet, linters, unreachable functions
	.ci/run tools fmt vet lint dead

fmt: tools ## rewrite our files as the formatters want them
	.bin/golangci-lint fmt

bench: ## the benchmarks in the packages; BENCH=regexp, PKG=./watch
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem $(or $(PKG),./...)

bench-run: ## what the server costs beside a bare net/http server; RUN=regexp, ARGS=flags of bench
	go -C bench run . -run '$(or $(RUN),.)' $(ARGS)

kinds-scale: ## what kinds cost: 1,000 installed one at a time, one more at 10,000, memory, documents; ARGS=flags
	go -C bench run ./kinds $(ARGS)

crds-scale: ## what definitions cost that are sent over HTTP: first objects, memory, restart, beside a Go kind; ARGS=flags
	go -C bench run ./kinds -definitions $(ARGS)

memory: ## what objects cost that are kept in memory, on bbolt after a restart; ARGS='-objects 1000000'
	go -C bench run ./memory $(ARGS)

walks: ## how many functions, files and packages run for a request of each kind
	scripts/walks.sh

bench-peer: ## the same beside another server; PEER=url, ARGS='-peer-token T -peer-pid 1,2 …'
	go -C bench run . -backend bbolt -run '$(or $(RUN),.)' -peer '$(or $(PEER),$(error PEER=https://… is missing))' $(ARGS)

bench-kube: ## the same beside a kube-apiserver that PEERS=directory of scripts starts and stops
	PEERS_SCRIPTS='$(PEERS)' scripts/bench-kube.sh -run '$(or $(RUN),.)' $(ARGS)

fuzz: ## each fuzz target for a minute; FUZZTIME=10m for longer
	FUZZTIME=$(or $(FUZZTIME),1m) BUDGET=86400 .ci/run fuzz

long: ## random histories of the storage backends on 20 seeds, and of namespaces on 100; 1,000 namespaces end among writers, 100,000 objects are migrated under load
	go test -count=1 -timeout 2h $(LONG) -seeds=20
	go test -count=1 -timeout 1h -v ./kinds -run 'NS_0[27]' -namespaces=1000 -histories=100
	go test -count=1 -timeout 2h -v ./registry -run MigrationUnderLoad -migrated=100000

move-scale: ## 200,000 objects move from a file to etcd and back under 50 informers and 4 writers; OBJECTS=
	go -C examples/cluster test -count=1 -timeout 2h -v ./kindwright-store -run ObjectsMove -moved=$(or $(OBJECTS),200000)

restores: ## an older copy of a store is put back 50 times under clients, as a backup and as a copied file; RESTORES=
	go test -count=1 -timeout 1h -v . -run OPS_Restores -restores=$(or $(RESTORES),50)

soak: ## watches under everything that can go wrong, each event checked; EVENTS=5000000, SEED= of a run to repeat
	go test -count=1 -timeout 4h -v ./internal/soak -run Soak -events=$(or $(EVENTS),5000000) -seed=$(or $(SEED),0)

kinds-churn: ## kinds come, go and are replaced under 50 writers, 50 readers and 100 informers; DURATION=1m, RACE=-race
	go test -count=1 -timeout 1h $(RACE) -v ./internal/soak -run KindsChurn -duration=$(or $(DURATION),1m)

crds-churn: ## a definition changes every 10 ms under 50 writers, 50 readers and 100 informers; DURATION=1m, RACE=-race
	go test -count=1 -timeout 1h $(RACE) -v ./kinds/crd -run ADefinitionChangesUnderLoad -changing=$(or $(DURATION),1m)

differential: ## the same random requests to ours and to PEER=url of a kube-apiserver; PEER_TOKEN=, SEED=, N=requests
	go test -count=1 -timeout 4h -v ./internal/differential -run ServersAnswerAlike -peer='$(or $(PEER),$(error PEER=https://… is missing))' \
		-peer-token='$(PEER_TOKEN)' -seed=$(or $(SEED),1) -requests=$(or $(N),5000)

planted: ## which test notices each bug of scripts/planted.txt, and how fast; ONLY=regexp of sentences
	scripts/planted.sh

versions-long: ## a million random writes through another version, none of which may lose what it cannot say; CASES=
	go test -count=1 -timeout 4h ./internal/engine -run NothingIsLost -version-cases=$(or $(CASES),1000000)

rbac: ## 5,000,000 random pairs of roles and requests, and of ABAC policies and requests, against evaluators of their own, and 10,000 revocations each in process on a store in memory, and over a socket on one in a file; PAIRS=, ROUNDS=
	go test -count=1 -timeout 4h -v ./authz/rbac -run 'Reference|SinglePermissions' -pairs=$(or $(PAIRS),5000000)
	go test -count=1 -timeout 1h -v ./authz/abac -run RandomPolicies -pairs=$(or $(PAIRS),5000000)
	go test -count=1 -timeout 4h -v ./kinds -run RevocationCounts -revocations=$(or $(ROUNDS),10000)

pairs: ## the requirements, asked of two servers over one store in turn
	KINDWRIGHT_PAIRS=1 go test -count=1 -timeout 30m ./internal/conformance

cluster-requirements: ## the requirements, on etcd
	go -C examples/cluster test -count=1 -timeout 30m -v . -run Requirements -requirements=.

cluster-clients: ## the tests of real clients against examples/cluster, on etcd; CLIENTS=regexp
	go -C examples/cluster test -count=1 -timeout 60m -v . -run ClientsOnEtcd -clients=$(or $(CLIENTS),.)

cluster-soak: ## watches under everything that can go wrong, on etcd; EVENTS=1000000
	go -C examples/cluster test -count=1 -timeout 4h -v . -run SoakOnEtcd -soaked=$(or $(EVENTS),1000000)

cluster-faults: ## three servers on three members of etcd, each fault ROUNDS=50 times; every answer, watch and informer is checked
	go -C examples/cluster test -count=1 -timeout 4h -v . -run UnderServers -rounds=$(or $(ROUNDS),50)

cluster-leaders: ## the leading processes of 20 teams of servers are killed, or stopped and waked up, 20 times each; LOSSES=
	go -C examples/cluster test -count=1 -timeout 2h -v . -run LeadingProcesses -teams=20 -parallel=20 -losses=$(or $(LOSSES),20)

histories: ## 500 concurrent histories a backend under faults, on handles of three processes each, checked for linearizability; N=
	go test -count=1 -timeout 2h -v ./storage/memory ./storage/bbolt -run STORE_04_Trials -trials=$(or $(N),500)
	go -C storage/etcd/etcdtest test -count=1 -timeout 4h -v . -run STORE_04_Trials -trials=$(or $(N),500)

attack: ## 10,000 slow handshakes, heads and bodies, resets, CONTINUATION and uploads against examples/server, and a good client; CONNECTIONS=
	KINDWRIGHT_ATTACK=$(or $(CONNECTIONS),10000) go test -count=1 -timeout 1h -v ./examples/internal/program -run AttacksOnTheRunningServer

audit-torture: ## 100,000 writes to a server whose store, disk, receiver of records and hooks fail, and 50 kills; each record is stored or counted; WRITES=, KILLS=, SEED=
	go test -count=1 -timeout 4h -v ./audit/log -run SEC_D4 -audit-writes=$(or $(WRITES),100000) -audit-seed=$(or $(SEED),1)
	KINDWRIGHT_KILLS=$(or $(KILLS),50) go test -count=1 -timeout 1h -v ./examples/internal/program -run AUD_20

memory-search: ## 10,000 random bodies of 3 MiB in JSON, YAML, protobuf and CBOR, and the worst of them; BODIES=, SEED=
	go test -count=1 -timeout 4h -v ./internal/conformance -run S1_MemoryOfBodies -bodies=$(or $(BODIES),10000) \
		-body-seed=$(or $(SEED),1) -body-limit=31457280 -resident-limit=31457280

body-search: ## 10,000 bodies for the stand-in that have one large part, for all kinds, forms and verbs, under policies, and what they cost; BODIES=, SEED=
	go -C examples/kube test -count=1 -timeout 4h -v ./kube-apiserver -run S1_CostOfBodies -args -bodies=$(or $(BODIES),10000) -body-seed=$(or $(SEED),1)

memory-load: ## 1,000 clients that send the worst bodies at once, and what another client's gets take; CLIENTS=
	go test -count=1 -timeout 4h -v ./internal/conformance -run S1_WorstBodiesAtOnce -load-clients=$(or $(CLIENTS),1000) -load-gets=1000 -load-every=20ms -load-apart

faults: ## 200,000 operations of client-go on a server whose store fails, each answer checked; CALLS=, SEED=
	go -C internal/interop test -count=1 -timeout 4h -v . -run FaultyStore -args -fault-calls=$(or $(CALLS),200000) -fault-seed=$(or $(SEED),1)

failing-store: ## 500 random runs of writers, owners and namespaces on a server whose store fails, and 500 across restarts; SEEDS=, SEED=
	go test -count=1 -timeout 4h ./internal/conformance -run FailingStore -store-seeds=$(or $(SEEDS),500) -store-seed=$(or $(SEED),1)

apply-long: ## 100,000 random sequences of writes against the reference of package apply
	go test -count=1 -timeout 2h ./apply -run TestReference -sequences=100000

cel-oracle: ## the recorded expressions, and 100,000 random schemas, rules, objects and old objects, beside the code of kube-apiserver; CASES=, SEED=, FROM=how many to leave out first
	go -C internal/celoracle test -count=1 .
	set -e; file=$$(mktemp); trap 'rm -f "$$file"' EXIT; GOGC=400 go -C internal/celoracle run . writes $(or $(CASES),100000) $(or $(SEED),1) $(or $(FROM),0) > "$$file"; \
		go test -count=1 -timeout 4h -v ./cel -run AsKubernetes -args -writes="$$file"

cel-definition: ## how long the rules of a definition of custom resources take to compile; FILE=, such as the HTTPRoutes of Gateway API
	go test -run '^$$' -bench CompileDefinition -benchmem ./cel -args -definition='$(abspath $(or $(FILE),$(error FILE=definition is missing)))'

crd-corpus: ## the custom resource definitions in the Go modules of scripts/crd-modules.txt, for crd-oracle; CORPUS=directory, FROM='git repository...' besides
	go -C internal/crdoracle run ./collect -modules '$(CURDIR)/scripts/crd-modules.txt' -to '$(abspath $(or $(CORPUS),$(error CORPUS=directory is missing)))' $(abspath $(FROM))

crd-oracle: ## 100,000 random objects, and those definitions, changed and updated, beside the code of kube-apiserver; CASES=, SEED=, CORPUS=directory
	go -C internal/crdoracle test -count=1 -timeout 4h -v . -args -cases=$(or $(CASES),100000) -seed=$(or $(SEED),1) -corpus='$(abspath $(CORPUS))'

crash: ## kill the example server among writes, KILLS=50 times
	KINDWRIGHT_KILLS=$(or $(KILLS),50) go test -count=1 -timeout 1h -v -run KilledServer ./examples/internal/program

crash-lab: ## power cuts, kills, torn pages, damage, failed syncs and full disks against storage/bbolt; needs root and strace; KINDWRIGHT_SHORT=1 for a twentieth of it
	@[ "$$(id -u)" = 0 ] || { echo 'crash-lab mounts file systems and cuts their power, so it needs root: sudo make crash-lab' >&2; exit 1; }
	go test -count=1 -timeout 6h -v ./internal/crashtest $(if $(KINDWRIGHT_SHORT), \
		-cuts=48 -kills=50 -torn=250 -damaged=150 -syncs=12 -full=5, -cuts=1000 -kills=1000 -torn=5000 -damaged=3000 -syncs=200 -full=100)

kubectl-check: ## a real kubectl against the example server, and in all the tests of kubectl; KUBECTL=path of one, 1.31 or newer
	KUBECTL=$(KUBECTL) scripts/kubectl-check.sh
	go -C internal/interop test -count=1 -timeout 30m . -run Kubectl -args -kubectl='$(abspath $(or $(KUBECTL),$(error KUBECTL=path is missing)))'

extension-kube: ## examples/extension behind a real kube-apiserver: kubectl, clients, who asks, rotations, failures; PEERS=directory of kube-apiserver and etcd, ROTATIONS=, AWAY=10m, RUN=regexp
	go -C internal/interop test -count=1 -timeout 3h -v ./behind -run "$(or $(RUN),.)" -args -peers='$(abspath $(or $(PEERS),$(error PEERS=directory is missing)))' \
		-rotations=$(or $(ROTATIONS),10) -away=$(or $(AWAY),2m)

controllers-envtest: ## the controllers of the tests against kube-apiserver and etcd, too; ASSETS=directory of both
	go -C internal/interop test -count=1 -timeout 30m -v ./controllers -args -assets='$(or $(ASSETS),$(error ASSETS=directory is missing))'

controller-runtime: ## controller-runtime's own suites against kube-apiserver and etcd in ASSETS=directory; SUITES='client cache', KEEP=directory for logs
	ASSETS='$(or $(ASSETS),$(error ASSETS=directory is missing))' KEEP='$(KEEP)' scripts/controller-runtime.sh $(SUITES)

operators: ## suites of operators that use envtest, on the servers in ASSETS=directory; DIR=directory to work in, SUITES='lws jobset'
	ASSETS='$(or $(ASSETS),$(error ASSETS=directory is missing))' DIR='$(or $(DIR),$(error DIR=directory is missing))' scripts/operators.sh $(SUITES)

policies: ## admission policies that others published, verdict by verdict, on the stand-in and a kube-apiserver; DIR=directory of checked-out policies, PEER=https://…, PEER_TOKEN=
	go -C examples/kube test -count=1 -timeout 2h -v -run PublicPoliciesJudge . -policies='$(abspath $(or $(DIR),$(error DIR=directory is missing)))' \
		-peer='$(or $(PEER),$(error PEER=https://… is missing))' -peer-token='$(PEER_TOKEN)'

kube-suites: ## Kubernetes' own integration tests against examples/kube/kube-apiserver; DIR=directory to work in, SUITES='apiserver apiserver/apply', RUN=regexp
	DIR='$(or $(DIR),$(error DIR=directory is missing))' RUN='$(RUN)' scripts/kube-suites/run.sh $(SUITES)

kube-validation: ## 20,000 random writes of the stand-in's kinds, beside Kubernetes' own checks, defaults and rules; DIR=directory to work in, KINDS=regexp, N=, SEED=, MESSAGES=1
	DIR='$(or $(DIR),$(error DIR=directory is missing))' KINDS='$(KINDS)' N='$(N)' SEED='$(SEED)' MESSAGES='$(MESSAGES)' scripts/kube-validation/run.sh

documents: ## what Kubernetes says about documents of schedulers, proxies and controller managers, recorded anew; DIR=directory to work in
	DIR='$(or $(DIR),$(error DIR=directory is missing))' scripts/documents/run.sh

test-cmd: ## Kubernetes' own suites of kubectl on the servers in ASSETS=directory, with its controllers; DIR=directory to work in, SUITES='pod crd', PORT=first of three
	ASSETS='$(or $(ASSETS),$(error ASSETS=directory is missing))' DIR='$(or $(DIR),$(error DIR=directory is missing))' PORT='$(PORT)' scripts/test-cmd.sh $(SUITES)

kube-e2e: ## Kubernetes' own e2e tests that need no running container, against examples/kube/kube-apiserver, with its controllers, scheduler and kwok; DIR=directory to work in, FOCUS=regexp
	DIR='$(or $(DIR),$(error DIR=directory is missing))' FOCUS='$(FOCUS)' scripts/kube-e2e/run.sh

measure: ## size, memory and start of the example server
	scripts/measure.sh

release: ## the programs, what they consist of, and checksums, in dist; TARGETS='linux/amd64 …'
	TARGETS='$(TARGETS)' scripts/release.sh dist

release-check: ## two builds in two places give the same checksums
	scripts/release.sh --check

tools: ## build the pinned linters into .bin
	.ci/run tools
