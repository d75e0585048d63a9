# Kiln: the VM configuration pipeline for Kubernetes. 'make help' lists the targets.
SHELL := /bin/bash
CORPUS ?=
LOAD ?=
PROPS ?= 2000
FUZZTIME ?= 1m
# One image of manifests/images, or all of them.
IMAGE ?=
# Where images and files of a release are published: 'make release' and 'make publish'.
REGISTRY ?=
URL ?=
KEY ?=
# What 'make faults' runs beside this tree: the last commit before controllers and webhooks of different versions had a test.
OLD ?= d98fae3
RATE ?= 30
# Set by 'make nightly': some tests run only there, see test/nightly.
NIGHTLY ?=
export NIGHTLY
# What 'make test' leaves out, see test/left_out.sh.
LEFT_OUT = $(if $(NIGHTLY),,$(shell test/left_out.sh))
# Versions of Kubernetes beside the version of test/controlplane/go.mod.
OLDER ?= v1.34.4 v1.35.4 v1.37.2
PACKAGES := ./...
# The images are built with the same settings, so that no package is compiled twice. With -trimpath, another checkout uses what this one has compiled. With cgo,
# gcc would link every binary that imports the package 'plugin' of the standard library, which takes twice as long.
export CGO_ENABLED = 0
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
# Modules of their own keep their requirements out of the product's go.mod: tests, programs that tests use, and tools.
TESTED := test/controlplane test/catalog test/kubevirt test/promtool
LINTED := $(TESTED) test/load/plot test/guest/vault test/csi test/cdi test/kubevirt/native
MODULES := . test/lint test/actionlint test/helm test/krew test/controlplane/containerd $(LINTED)
LDFLAGS = -X github.com/kilnvm/kiln/internal/version.stamp=$(VERSION)

.PHONY: help build run test tested/main tested/modules tested/each check lint manifests golden fuzz faults older nightly conformance kubevirt bench load
.PHONY: import-corpus image launcher release publish reproduce deps controlplane node browser site clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

build: ## build the four programs into bin/, stamped with VERSION
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
	ln -sf kubectl-kiln bin/kubectl_complete-kiln

# Kiln is installed in the cluster of KUBECONFIG, unless this machine is to serve that cluster.
THEIRS = $(and $(KUBECONFIG),$(if $(WEBHOOK_HOST)$(RUNTIME),,yes))
export REGISTRY NODE_IMAGE

run: $(if $(THEIRS),,deps) build ## start everything, create a VM, show each stage, stay until Ctrl-C [RUNTIME=node] [KUBECONFIG=FILE REGISTRY=HOST/PATH]
	@test/demo/pipeline.sh
	@$(if $(THEIRS),,$(MAKE) --no-print-directory controlplane)
	@go build -o bin/demo ./test/demo && exec bin/demo

# 'make check' has vetted all packages before. Without DWARF (-w) dozens of test binaries link faster. The longest packages begin first, so that none runs alone
# at the end. Three packages for two processors: many tests wait for other processes most of the time.
# 'make nightly' has more time for a package: the guests on volumes of test/pods alone took 13 minutes.
TEST = -p $(shell echo $$(( $$(nproc) * 3 / 2 ))) -count=1 -vet=off -ldflags=-w -timeout $(if $(NIGHTLY),2h,80m)
FIRST = $(if $(filter ./...,$(PACKAGES)),$(filter-out $(LEFT_OUT:%=./%),$(addprefix ./test/,e2e pods cgroup2 install beside node subresources walk domains demo) ./manifests))
# The packages of this module that are not in LEFT_OUT.
REST = $(if $(filter ./...,$(PACKAGES)),$(filter-out $(LEFT_OUT:%=github.com/kilnvm/kiln/%),$(shell go list ./...)),$(PACKAGES))
GOTESTSUM = $(CURDIR)/bin/gotestsum --format pkgname-and-test-fails --format-icons text --jsonfile $(CURDIR)/bin/tests-

# A larger heap for etcd, the API servers, linkers and the tests themselves: they collect garbage less often. test/cluster starts Kiln's programs without it.
test: export GOGC ?= 400

test: deps check node ## everything but what 'make nightly' alone runs: policy, units, properties, a real API server, a real libvirt, a booted guest
	@go build -o bin/gotestsum gotest.tools/gotestsum
	@rm -f bin/tests-*.json
	@$(MAKE) --no-print-directory -j 2 tested/main tested/modules
	@test/skipped.sh $(LEFT_OUT)

tested/main:
	PROPS=$(PROPS) $(GOTESTSUM)main.json -- $(TEST) $(FIRST) $(REST)

# The modules of TESTED, one after another beside the packages of this one: most of their tests wait for processes.
tested/modules: $(if $(filter-out $(LEFT_OUT),$(TESTED)),tested/each)

tested/each:
	@$(MAKE) --no-print-directory --output-sync=target $(patsubst %,tested/%,$(filter-out $(LEFT_OUT),$(TESTED)))

tested/%:
	cd $* && $(GOTESTSUM)$(notdir $*).json -- $(TEST) ./...

check: lint ## formatting, linters, go.mod
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt: $$out"; exit 1; }
	@for module in $(MODULES); do \
	  go -C $$module mod tidy -diff || { echo "$$module: run 'go mod tidy' there"; exit 1; }; done

lint: bin/golangci-lint bin/actionlint ## golangci-lint with vet and staticcheck (.golangci.yml), actionlint
	bin/actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml # the two are not on every machine
	bin/golangci-lint run $(PACKAGES)
	for module in $(LINTED); do (cd $$module && $(CURDIR)/bin/golangci-lint run ./...) || exit 1; done

bin/golangci-lint: test/lint/go.mod test/lint/go.sum
	go -C test/lint build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/actionlint: test/actionlint/go.mod test/actionlint/go.sum
	go -C test/actionlint build -o ../../$@ github.com/rhysd/actionlint/cmd/actionlint

manifests: ## write the CRDs, the cert-manager overlay, the Helm chart and the pages about kinds and keys again from their Go types
	go run ./manifests/generate

golden: ## write test/corpus, test/machines, docs/reference, pictures and the rules of lint again (builds KubeVirt); read every difference before you commit it
	GOLDEN=rewrite go test -count=1 -run '^Test(Corpus|Requests|Rules|Goldens|EveryLeafIsAccountedFor|KubeVirt|Runtimes|Reference|Page|Pictures|ImportExample)$$' \
	  ./pkg/hardware ./pkg/pod ./test/corpus ./test/machines ./test/fields ./test/reference ./cmd/... ./internal/cli ./internal/workbench/catalogs

fuzz: ## every fuzz target for FUZZTIME=10m each; what is found is kept below its package's testdata/fuzz
	@grep -rhoE --include='*_test.go' -H '^func Fuzz[A-Za-z]+' . | while IFS=: read -r file name; do \
	  go test -run '^$$' -fuzz "^$${name#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x "$$(dirname "$$file")" || exit 1; done

faults: deps controlplane ## what users feel when something breaks: tables of Kiln, KubeVirt alone, Kiln beside it [RATE=30] [ONLY=regexp] [OLD=commit]
	go run ./test/faults -rate $(RATE) -only "$(ONLY)" -old "$(OLD)"
	go run ./test/faults -rate $(RATE) -only "$(ONLY)" -kubevirt alone
	go run ./test/faults -rate $(RATE) -only "$(ONLY)" -kubevirt kiln

older: deps ## the manifests and the end-to-end tests against API servers of OLDER="v1.34.4 v1.35.4 v1.37.2", built into bin/k8s-VERSION
	for version in $(OLDER); do \
	  go -C test/controlplane run ./older -o $(CURDIR)/bin/k8s-$$version $$version && \
	  KUBEBUILDER_ASSETS=$(CURDIR)/bin/k8s-$$version go test -count=1 -timeout 60m ./manifests ./test/e2e || exit 1; done

nightly: ## what takes hours: every test, mutants, properties, kills of guests in pods, fuzzing for 3m, faults, older API servers, the release made twice
	$(MAKE) test NIGHTLY=yes
	go -C test/csi test -count=1 -v ./...
	MUTANTS=0 go test -count=1 -v -timeout 2h ./test/mutation
	PROPS=100000 go test -count=1 -v -timeout 4h -run 'Laws|AreLegalProfiles' ./test/corpus
	WALK=20000 go test -count=1 -v -timeout 2h ./test/walk
	RUNS=500 go test -count=1 -timeout 2h ./test/model
	NIGHTLY=yes ROUNDS=100 VMS=50 go test -count=1 -v -timeout 6h -run '^Test(Kills|Waves)$$' ./test/pods
	$(MAKE) fuzz FUZZTIME=3m
	$(MAKE) faults
	$(MAKE) older
	$(MAKE) reproduce

conformance: ## replay recorded answers of each version of KubeVirt, or of CORPUS=dir [ONLY=name] [KUBEVIRT=v1.8.2]
	go run ./test/conformance -corpus "$(CORPUS)" -only "$(ONLY)" $(if $(KUBEVIRT),-kubevirt $(KUBEVIRT))

import-corpus: ## the shares of the domains of others that can be imported: KILN_SHARED=dir with domains/
	go test -count=1 -v -run '^TestForeignDomains$$' ./test/imports

kubevirt: ## what changed between a version of KubeVirt and the one that Kiln is built with: VERSION=v1.8.2 [CORPUS=dir records its answers, too]
	@test "$(origin VERSION)" = "command line" || { echo "kubevirt: VERSION=v1.8.2 names a version of KubeVirt"; exit 2; }
	go run ./test/versions -version $(VERSION) -corpus "$(CORPUS)"

bench: ## time and memory beside their limits in the same run, into bin/bench.txt
	@mkdir -p bin
	set -o pipefail; go test -run '^$$' -bench . -benchmem -count 5 ./test/bench | tee bin/bench.txt

image: ## the images 'kiln' and 'launcher' for this machine, as OCI archives in bin/images [IMAGE=name]
	go run ./manifests/images -o bin/images -version '$(VERSION)' $(IMAGE)

release: ## bin/release: programs, archives for krew, image, chart, install manifests, materials (CycloneDX), SHA256SUMS [REGISTRY=HOST/PATH] [URL=address]
	go run ./manifests/release -o bin/release -version '$(VERSION)' -registry '$(REGISTRY)' -url '$(URL)'

launcher: ## the image 'launcher' for all platforms of a release, of Debian's packages, as bin/images/launcher.tar
	go run ./manifests/images -o bin/images -version '$(VERSION)' -platforms linux/amd64,linux/arm64 launcher

publish: ## push the images of bin/release, bin/images/launcher.tar if it exists, and the chart: REGISTRY=HOST/PATH [KEY=cosign.key COSIGN_PASSWORD=...]
	@go run ./manifests/publish -from bin/release -to '$(REGISTRY)' -key '$(KEY)' -launcher '$(wildcard bin/images/launcher.tar)'

reproduce: release ## make the release of HEAD again, in another folder with an empty cache, and compare the sums
	@git diff --quiet HEAD || { echo "reproduce: the sources differ from HEAD, commit them first"; exit 1; }
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git clone -q . "$$dir/elsewhere" && \
	  GOCACHE="$$dir/cache" $(MAKE) -C "$$dir/elsewhere" release VERSION='$(VERSION)' && \
	  diff bin/release/SHA256SUMS "$$dir/elsewhere/bin/release/SHA256SUMS" && echo "reproduced: $$(wc -l <bin/release/SHA256SUMS) files are equal"

load: controlplane bench ## creates a second and memory beside their peers, into docs/project: over an hour (LOAD="-only creates -rounds 1" for less)
	go run ./test/load $(LOAD)
	go -C test/load/plot run .

deps: ## install what the tests need (Debian, root), or say what is missing
	@test/deps.sh

controlplane: ## etcd, kube-apiserver, kube-controller-manager, kubectl in bin/k8s
	@go -C test/controlplane run . build

node: ## controlplane, and what a node runs: kubelet, kube-scheduler, kube-proxy in bin/k8s; containerd, runc, CNI plugins in bin/node
	@go -C test/controlplane run . node build

browser: ## 'kubectl kiln' as WebAssembly into bin/browser, for the page of 'kubectl kiln catalog site --try'
	go run ./internal/browser/build -o bin/browser -version '$(VERSION)'

# VitePress runs in bin, so that no tool finds node_modules among the sources. It needs the npm of Node 20.19, 22.12 or later.
site: browser bin/site/node_modules ## the pages of docs as a static site into bin/site/dist, for any path of a server; dead links and anchors fail (npm)
	@rm -rf bin/site/.vitepress bin/site/pages bin/site/dist && mkdir -p bin/site/pages/manifests/chart/kiln
	@cp -r docs/site/.vitepress bin/site && cp -r docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md bin/site/pages && rm -r bin/site/pages/docs/site
	@cp manifests/chart/kiln/README.md bin/site/pages/manifests/chart/kiln
	cd bin/site && npx vitepress build
	go run ./cmd/kubectl-kiln catalog site manifests/catalog --title 'Sample catalog' --try bin/browser --output-dir bin/site/dist/try
	go run ./test/site/links bin/site/dist

bin/site/node_modules: docs/site/package.json docs/site/package-lock.json
	@mkdir -p bin/site && cp docs/site/package.json docs/site/package-lock.json docs/site/.npmrc bin/site
	cd bin/site && npm ci
	@touch $@

clean: ## remove what was built
	rm -rf bin
