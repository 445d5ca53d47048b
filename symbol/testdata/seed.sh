#!/bin/sh
# Makes the seeds of the fuzzers again.
set -e
cd "$(dirname "$0")"
flags="-O2 -nostdlib -static -fno-asynchronous-unwind-tables -Wl,--build-id=none -Wl,-z,noseparate-code"
gcc $flags -g -gdwarf-5 -o seed5.elf seed.c
gcc $flags -g -gdwarf-4 -o seed4.elf seed.c
clang-14 $flags -g -gdwarf-5 -o seedx.elf seed.c # indexed strings and addresses
