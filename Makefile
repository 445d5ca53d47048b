# Building needs only Go. What else is needed is checked where it is used.

GO ?= go
BIN := $(CURDIR)/bin
LINT := $(BIN)/golangci-lint
STATICCHECK := $(BIN)/staticcheck

.DEFAULT_GOAL := build
.PHONY: build test test-kernels lint generate bench bench-cost fmt clean

build: ## the command, into ./tollgate
	CGO_ENABLED=0 $(GO) build -trimpath -o tollgate ./cmd/tollgate

test: ## all tests, after installing what they need where that is possible
	scripts/setup.sh
	scripts/test.sh

test-kernels: ## Debian's kernel for amd64 and arm64 in QEMU; needs qemu, cpio and a cross compiler
	scripts/test-kernel.sh amd64
	scripts/test-kernel.sh arm64

lint: $(LINT) $(STATICCHECK) ## vet, staticcheck and golangci-lint
	$(GO) vet ./...
	$(STATICCHECK) ./...
	$(LINT) run ./...

generate: ## the BPF objects, from bpf/*.bpf.c
	scripts/setup.sh generate
	$(GO) generate ./bpf

bench: ## every benchmark once, as root for those that sample
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...

bench-cost: ## what sampling costs, beside its targets; as root, some minutes on a quiet machine
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/tollgate ./cmd/tollgate
	$(GO) run ./bench/cost -tollgate $(BIN)/tollgate

fmt: ## gofmt -s over every Go file
	gofmt -s -w $$(git ls-files --cached --others --exclude-standard '*.go')

clean:
	rm -rf tollgate bin

# The linters have a module of their own, so that their dependencies are not
# the program's. Its go.sum pins them.
$(LINT) $(STATICCHECK): tools/lint/go.mod tools/lint/go.sum
	mkdir -p $(BIN)
	$(GO) -C tools/lint build -o $(BIN)/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint honnef.co/go/tools/cmd/staticcheck
	touch $(LINT) $(STATICCHECK)
