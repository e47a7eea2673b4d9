/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The state of a bdi_writeback that workers.h and writeback.h share. */
#ifndef TEK_WB_STATE_H
#define TEK_WB_STATE_H

#include "common.h"

/* A bdi_writeback with inodes that critical tasks made dirty. */
struct wb_state {
	__u64 wb;
	__u64 low, high; /* the priorities of these tasks */
	int inodes;
	int worker; /* the worker that runs the work or will be woken for it; 0: none known */
};

/* its work -> its state. An entry without inodes stays until the map evicts it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 512);
	__type(key, __u64);
	__type(value, struct wb_state);
} wbs SEC(".maps");

static __always_inline struct wb_state *find_wb(__u64 work)
{
	struct wb_state *state;
	if (entries(inodes) <= 0)
		return NULL;
	state = bpf_map_lookup_elem(&wbs, &work);
	return state && state->inodes > 0 ? state : NULL;
}

#endif
