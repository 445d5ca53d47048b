//go:build ignore
// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Does nothing with each sample: what the interruption itself costs. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("perf_event")
int empty(struct bpf_perf_event_data *ctx)
{
	return 0;
}
