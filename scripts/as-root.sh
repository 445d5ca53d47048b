#!/usr/bin/env bash
# Runs a test binary as root, for `go test -exec`. sudo resets the
# environment; what tests read is passed on. HOME becomes root's, so that
# builds inside of tests leave nothing of root's in the user's cache.
set -euo pipefail
pass=("PATH=$PATH" "GOMODCACHE=$(go env GOMODCACHE)")
for name in TOLLGATE_REQUIRE_PRIVILEGED GOPROXY GONOSUMDB GONOSUMCHECK GOFLAGS GOSUMDB TMPDIR CI; do
	if [[ -v $name ]]; then
		pass+=("$name=${!name}")
	fi
done
exec sudo -n env "${pass[@]}" "$@"
