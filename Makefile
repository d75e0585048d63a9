# Kiln: the VM configuration pipeline for Kubernetes. 'make help' lists the targets.
SHELL := /bin/bash
CORPUS ?=
PROPS ?= 2000
FUZZTIME ?= 1m
PACKAGES := ./...
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS = -X github.com/kilnvm/kiln/internal/version.stamp=$(VERSION)

.PHONY: help build run test check lint manifests golden fuzz nightly conformance bench deps controlplane clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 14

build: ## build the four programs into bin/, stamped with VERSION
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

run: deps build controlplane ## start everything, create a VM, show each stage, stay until Ctrl-C (KUBECONFIG=... WEBHOOK_HOST=... for your cluster)
	@go build -o bin/demo ./test/demo && exec bin/demo

test: deps check controlplane ## everything: policy, units, properties, a real API server, a real libvirt, a booted guest
	@go build -o bin/gotestsum gotest.tools/gotestsum
	PROPS=$(PROPS) bin/gotestsum --format pkgname-and-test-fails --format-icons text -- -count=1 -timeout 30m $(PACKAGES)
	for module in test/controlplane test/catalog test/virtctl; do \
	  (cd $$module && go vet ./... && ../../bin/gotestsum --format pkgname-and-test-fails --format-icons text -- -count=1 -timeout 30m ./...) || exit 1; done

check: lint ## formatting, vet, linters, go.mod
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt: $$out"; exit 1; }
	go vet $(PACKAGES)
	@for module in . test/lint test/controlplane test/catalog test/virtctl; do go -C $$module mod tidy -diff || { echo "$$module: run 'go mod tidy' there"; exit 1; }; done

lint: bin/golangci-lint ## staticcheck and golangci-lint (.golangci.yml)
	go tool staticcheck $(PACKAGES)
	bin/golangci-lint run $(PACKAGES)

bin/golangci-lint: test/lint/go.mod test/lint/go.sum
	go -C test/lint build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

manifests: ## write the CRDs, the cert-manager overlay and the pages about kinds and keys again from their Go types
	go run ./manifests/generate

golden: ## write test/corpus, test/machines, docs/reference and the rules in docs/catalog.md again; read every difference before you commit it
	GOLDEN=rewrite go test -count=1 -run '^Test(Corpus|Requests|Rules|Goldens|EveryLeafIsAccountedFor|Reference)$$' \
	  ./test/corpus ./test/machines ./test/fields ./cmd/... ./internal/cli ./internal/workbench

fuzz: ## every fuzz target for FUZZTIME=10m each; what is found is kept below its package's testdata/fuzz
	@grep -rhoE --include='*_test.go' -H '^func Fuzz[A-Za-z]+' . | while IFS=: read -r file name; do \
	  go test -run '^$$' -fuzz "^$${name#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x "$$(dirname "$$file")" || exit 1; done

nightly: ## what takes hours: every condition of the rules changed, properties with PROPS=100000, every fuzz target for 10m
	MUTANTS=0 go test -count=1 -v -timeout 2h ./test/mutation
	PROPS=100000 go test -count=1 -v -timeout 4h -run 'TestLaws' ./test/corpus
	$(MAKE) fuzz FUZZTIME=10m

conformance: ## replay recorded answers: CORPUS=dir [ONLY=name]
	@test -n "$(CORPUS)" || { echo "conformance: CORPUS=dir names the folder of recorded answers"; exit 2; }
	go run ./test/conformance -corpus $(CORPUS) -only "$(ONLY)"

bench: ## time and memory beside their limits in the same run
	go test -run '^$$' -bench . -benchmem ./test/bench

deps: ## install what the tests need (Debian, root), or say what is missing
	@test/deps.sh

controlplane: ## etcd, kube-apiserver, kube-controller-manager, kubectl in bin/k8s
	@go -C test/controlplane run . build

clean: ## remove what was built
	rm -rf bin
