#!/usr/bin/env bash
# Installs what the tests (default) or `make generate` need beside Go, on
# Debian and Ubuntu, as root or with sudo that asks no password. Elsewhere it
# says what is missing and succeeds: tests skip what they cannot run.
#
# usage: scripts/setup.sh [test|generate] [--strict]
#   --strict  fail when something is missing in the end
set -euo pipefail

strict=
what=test
for arg in "$@"; do
	case $arg in
	test | generate) what=$arg ;;
	--strict) strict=yes ;;
	*)
		echo "setup: unknown argument $arg" >&2
		exit 2
		;;
	esac
done

# command:package, as the tests look the commands up, or file:package. g++ brings
# the headers of libc, which gcc only recommends.
needs=(clang-14:clang-14 llvm-strip-14:llvm-14 /usr/include/bpf/bpf_helpers.h:libbpf-dev)
if [[ $what == test ]]; then
	needs+=(
		llvm-symbolizer-14:llvm-14 gcc:gcc g++:g++ readelf:binutils git:git dwz:dwz
		aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu
		/usr/aarch64-linux-gnu/include/stdio.h:libc6-dev-arm64-cross
		/usr/aarch64-linux-gnu/lib/libstdc++.so.6:libstdc++6-arm64-cross
	)
fi

if ! command -v go >/dev/null; then
	echo "setup: Go is not installed: see https://go.dev/doc/install" >&2
	exit 1
fi

missing_packages() {
	local need
	for need in "${needs[@]}"; do
		command -v "${need%%:*}" >/dev/null || [[ -e ${need%%:*} ]] || echo "${need##*:}"
	done | sort -u
}

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -eq 0 ]]; then
	exit 0
fi

as_root=()
can_install=yes
if ! command -v apt-get >/dev/null; then
	can_install=
	why="there is no apt-get"
elif [[ $(id -u) -ne 0 ]]; then
	if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		as_root=(sudo -n)
	else
		can_install=
		why="neither root nor sudo without a password"
	fi
fi

if [[ $can_install ]]; then
	echo "setup: installing ${missing[*]}" >&2
	why="apt-get failed"
	install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -qq install --no-install-recommends)
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	"${as_root[@]}" apt-get -qq update >"$log" 2>&1 || true
	# All at once; one by one when a release does not have one of them.
	if ! "${install[@]}" "${missing[@]}" >>"$log" 2>&1; then
		for package in "${missing[@]}"; do
			"${install[@]}" "$package" >>"$log" 2>&1 || true
		done
	fi
	mapfile -t missing < <(missing_packages)
	if [[ ${#missing[@]} -eq 0 ]]; then
		exit 0
	fi
	tail -n 5 "$log" >&2
fi

echo "setup: not installed: ${missing[*]} ($why)" >&2
echo "setup: tests that need them are skipped" >&2
[[ -z $strict ]]
