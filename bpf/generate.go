package bpf

// Needs clang-14, llvm-strip-14 and the headers of libbpf (libbpf-dev).
//
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -type unwind_rule -type table_page -type file_key -type file_entry -type sample_record -type process_record -type missing_mapping -type counters -type run_state -type task_tag -type usage -type event_counters -type record_header -type comm_key -type stack_record -type frame_registers sampler sampler.bpf.c -- -O2 -Wall -Wextra -Wno-unused-parameter -Werror -mcpu=v3 -Iheaders
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 floor floor.bpf.c -- -O2 -Wall -Wextra -Wno-unused-parameter -Werror -mcpu=v3 -Iheaders
