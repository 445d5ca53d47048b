#!/usr/bin/env bash
# Runs all tests. Those that need root run as root when this does, or through
# sudo when that asks no password; else they skip and say so.
#
# TOLLGATE_REQUIRE_PRIVILEGED=1 makes a privileged test that did not run a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

go build ./...

# A package has privileged tests when its tests read the variable. They run
# one package at a time: they sample the whole machine.
mapfile -t privileged < <(
	grep -rl --include='*_test.go' TOLLGATE_REQUIRE_PRIVILEGED . | xargs -r -n 1 dirname | sort -u | xargs -r go list
)
mapfile -t others < <(go list ./... | grep -vxF -f <(printf '%s\n' "${privileged[@]}" -))

exec_as=()
if [[ $(id -u) -ne 0 ]]; then
	if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		exec_as=(-exec "$PWD/scripts/as-root.sh")
	else
		echo "test: neither root nor sudo without a password: privileged tests will be skipped" >&2
	fi
fi

summary=()
if [[ ${TOLLGATE_REQUIRE_PRIVILEGED:-} == 1 ]]; then
	summary=(-must tools/testsummary/privileged.txt)
fi

# Both runs happen, whatever the first says.
{
	status=0
	go test -json -timeout 10m "${others[@]}" || status=1
	if [[ ${#privileged[@]} -gt 0 ]]; then
		go test -json -timeout 10m -p 1 "${exec_as[@]}" "${privileged[@]}" || status=1
	fi
	exit "$status"
} | go run ./tools/testsummary "${summary[@]}"
