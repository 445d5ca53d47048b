#!/usr/bin/env bash
# Boots Debian's kernel for ARCH in QEMU (no KVM needed), samples a C and a
# Go program in it, and checks their stacks: bench/guest is its init process.
#
# usage: scripts/test-kernel.sh amd64|arm64 [PACKAGE-PATTERN]
#   PACKAGE-PATTERN  of linux-image packages, the newest wins (default
#                    'linux-image-6.1.*-cloud-ARCH')
#
# Needs qemu-system-x86 or qemu-system-arm, gcc for ARCH, cpio, apt.
set -euo pipefail

arch=${1:?usage: scripts/test-kernel.sh amd64|arm64 [PACKAGE-PATTERN]}
pattern=${2:-"linux-image-6\.1\..*-cloud-$arch$"}
root=$(cd "$(dirname "$0")/.." && pwd)
cache=$root/.cache/kernels/$arch
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A package view of its own, made from the machine's sources, so that neither
# the machine's architectures nor its package lists change.
packages() {
	mkdir -p "$cache/lists/partial" "$cache/archives/partial" "$cache/sources"
	local file
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
		[[ -f $file ]] && grep -q debian.org "$file" && cp "$file" "$cache/sources/"
	done
	[[ -e $cache/sources/sources.list ]] && mv "$cache/sources/sources.list" "$cache/sources/main.list"
	: >"$cache/status"
	cat >"$cache/apt.conf" <<-CONF
		Dir::State::Lists "$cache/lists";
		Dir::State::status "$cache/status";
		Dir::Etc::SourceList "/dev/null";
		Dir::Etc::SourceParts "$cache/sources";
		Dir::Cache "$cache";
		APT::Architecture "$arch";
		APT::Architectures {"$arch";};
		APT::Sandbox::User "root";
	CONF
	export APT_CONFIG=$cache/apt.conf
	[[ -n $(find "$cache/lists" -maxdepth 1 -name '*Packages*' -mtime -1) ]] || apt-get update -qq
}

kernel() {
	local names name
	packages
	names=$(apt-cache search --names-only "$pattern" | awk '{print $1}' | grep -v -- -dbg | sort -rV)
	unset name
	for name in $names; do # the newest may not be on the mirror any more
		[[ -s $cache/$name.vmlinuz ]] || (cd "$work" && apt-get download -qq "$name" &&
			dpkg-deb --fsys-tarfile "$name"_*.deb | tar -xO --wildcards './boot/vmlinuz*' >vmlinuz &&
			mv vmlinuz "$cache/$name.vmlinuz") || continue
		echo "$cache/$name.vmlinuz"
		return
	done
	echo "test-kernel: no kernel package matches $pattern" >&2
	return 1
}

image=$(kernel)
unset APT_CONFIG
case $arch in
amd64)
	compiler=gcc
	machine=(qemu-system-x86_64 -machine q35 -cpu max -m 768)
	console=ttyS0
	;;
arm64)
	compiler=aarch64-linux-gnu-gcc
	machine=(qemu-system-aarch64 -machine "virt,gic-version=3" -cpu "max,pauth-impdef=on" -m 1024)
	console=ttyAMA0
	;;
*)
	echo "test-kernel: unknown architecture $arch" >&2
	exit 2
	;;
esac

mkdir "$work/root"
(cd "$root" && CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -o "$work/root/init" ./bench/guest)
flags=()
[[ $arch == arm64 ]] && flags+=(-mbranch-protection=standard)
(cd "$root" && CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -o "$work/root/goworkload" ./bench/guest/testdata/goworkload)
$compiler -O2 -g -static -fomit-frame-pointer "${flags[@]}" -o "$work/root/workload" "$root/bench/guest/testdata/workload.c"
(cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1 >"$work/initrd")

# The verdict is the marker on the serial line; a panic leaves none.
timeout -k 5 "${GUEST_TIMEOUT:-240}" nice "${machine[@]}" -nodefaults -no-user-config -display none -no-reboot \
	-accel tcg,thread=single -icount shift=3,sleep=off -smp 1 -kernel "$image" -initrd "$work/initrd" \
	-append "console=$console panic=-1 quiet" -serial "file:$work/log" </dev/null || true
tr -d '\r' <"$work/log"
grep -q '^GUEST-EXIT 0' <(tr -d '\r' <"$work/log") || {
	echo "test-kernel: $arch $(basename "$image"): failed" >&2
	exit 1
}
echo "test-kernel: $arch $(basename "$image"): ok"
