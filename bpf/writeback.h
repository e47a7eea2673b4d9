/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Writeback: a task is in R(wb) once for each inode that it made dirty, until that is clean. */
#ifndef TEK_WRITEBACK_H
#define TEK_WRITEBACK_H

#include "workers.h"

/* An inode that a critical task made dirty. */
struct dirty {
	__u64 work;   /* of its bdi_writeback: the key of `wbs` */
	__u32 period; /* distinguishes this dirty period from earlier ones */
	__u32 spare;
};

/* inode -> its work and period */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct dirty);
} inodes SEC(".maps");

__u32 dirty_at[1 << PLACE_BITS];

/* A task that made an inode dirty. */
struct dirtied {
	__u64 inode;
	int tid;
	int spare;
};

/* task and inode -> the last reported period. An evicted entry causes another report. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct dirtied);
	__type(value, __u32);
} tellings SEC(".maps");

/* The bits and the type of i_state differ between kernels: kernel.h. */
struct inode_bits {
	__u64 state, dirty_pages, freeing;
};

/* The state and bits of an inode; for NULL the bits only. */
static __always_inline struct inode_bits bits_of(struct inode *inode)
{
	struct inode___number *number = (void *)inode;
	struct inode___named *named = (void *)inode;
	struct inode___wrapped *wrapped = (void *)inode;
	struct inode_bits bits = {};
	if (bpf_core_field_exists(wrapped->i_state.__state)) {
		bits.dirty_pages = bpf_core_enum_value(enum inode_state_flags_enum___tek,
						       I_DIRTY_PAGES___wrapped);
		bits.freeing = bpf_core_enum_value(enum inode_state_flags_enum___tek,
						   I_FREEING___wrapped);
		if (inode)
			bits.state = BPF_CORE_READ(wrapped, i_state.__state);
	} else if (bpf_core_field_exists(named->i_state)) {
		bits.dirty_pages = bpf_core_enum_value(enum inode_state_flags_t___tek,
						       I_DIRTY_PAGES___named);
		bits.freeing = bpf_core_enum_value(enum inode_state_flags_t___tek,
						   I_FREEING___named);
		if (inode)
			bits.state = BPF_CORE_READ(named, i_state);
	} else {
		bool is_int = bpf_core_field_size(number->i_state) == sizeof(__u32);
		bits.dirty_pages = is_int ? I_DIRTY_PAGES_OF_INT : I_DIRTY_PAGES_OF_LONG;
		bits.freeing = is_int ? I_FREEING_OF_INT : I_FREEING_OF_LONG;
		if (inode)
			bpf_core_read(&bits.state, is_int ? 4 : 8, &number->i_state);
	}
	return bits;
}

/* NULL for file systems in memory, which have no writeback. */
static __always_inline struct bdi_writeback *writeback_of(struct inode *inode)
{
	struct bdi_writeback *wb = NULL;
	if (bpf_core_field_exists(inode->i_wb))
		wb = BPF_CORE_READ(inode, i_wb);
	if (!wb) {
		struct backing_dev_info *bdi = BPF_CORE_READ(inode, i_sb, s_bdi);
		if (!bdi)
			return NULL;
		wb = (void *)bdi + bpf_core_field_offset(struct backing_dev_info, wb);
	}
	return BPF_CORE_READ(wb, bdi, capabilities) & BDI_CAP_WRITEBACK ? wb : NULL;
}

/* The state of a bdi_writeback, created if it does not exist. */
static __always_inline struct wb_state *state_of(__u64 work, struct bdi_writeback *wb)
{
	struct wb_state *state = bpf_map_lookup_elem(&wbs, &work);
	if (state)
		return state;
	struct wb_state fresh = {.wb = (__u64)wb};
	bpf_map_update_elem(&wbs, &work, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&wbs, &work);
}

SEC("tp_btf/writeback_mark_inode_dirty")
int BPF_PROG(inode_dirtied, struct inode *inode, int flags)
{
	struct member member = {};
	if (!(flags & bits_of(NULL).dirty_pages) || !find_member(&member))
		return 0;
	struct bdi_writeback *wb = writeback_of(inode);
	if (!wb)
		return 0;
	__u64 work = (__u64)wb + bpf_core_field_offset(struct bdi_writeback, dwork) +
		     bpf_core_field_offset(struct delayed_work, work);
	struct dirtied dirtied = {.inode = (__u64)inode, .tid = member.tid};
	struct dirty *known = bpf_map_lookup_elem(&inodes, &dirtied.inode);
	struct wb_state *state = state_of(work, wb);
	__u32 period;
	if (!state) {
		lose(TEK_KTHREAD_WRITEBACK);
		return 0;
	}
	if (known) {
		period = known->period;
		__u32 *when = bpf_map_lookup_elem(&tellings, &dirtied);
		if (when && *when == period)
			return 0;
	} else {
		__u32 place = place_of_inode(&dirtied.inode);
		period = __sync_fetch_and_add(&tallies.period, 1);
		struct dirty fresh = {.work = work, .period = period};
		__sync_fetch_and_add(&dirty_at[place], 1);
		long error = bpf_map_update_elem(&inodes, &dirtied.inode, &fresh, BPF_NOEXIST);
		if (error)
			__sync_fetch_and_add(&dirty_at[place], -1);
		if (!error) {
			__sync_fetch_and_add(&state->inodes, 1);
			__sync_fetch_and_add(&tallies.inodes, 1);
		} else if (!(known = bpf_map_lookup_elem(&inodes, &dirtied.inode))) {
			lose(TEK_KTHREAD_WRITEBACK);
			return 0;
		} else {
			period = known->period;
		}
	}
	bpf_map_update_elem(&tellings, &dirtied, &period, BPF_ANY);
	__sync_fetch_and_or(&state->low, low_bit(member.priority));
	__sync_fetch_and_or(&state->high, high_bit(member.priority));
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_WRITEBACK,
						    TEK_KTHREAD_INODE_DIRTIED);
	if (!event)
		return 0;
	event->thing = dirtied.inode;
	event->second = (__u64)wb;
	/* A disk has an inode of its own for blocks that belong to no file. */
	event->dev = BPF_CORE_READ(inode, i_rdev);
	if (!event->dev)
		event->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	event->kthread = state->worker;
	fill_member(event, &member);
	/* As long as the work is not queued, no worker needs a boost. */
	send(event, member.is_new || (event->kthread && changes(&member, event->kthread)));
	return 0;
}

/* Ends the relation of all tasks that made the inode dirty. */
static __always_inline void end_inode(__u64 inode, enum tek_kthread_kind kind)
{
	struct dirty *known = bpf_map_lookup_elem(&inodes, &inode);
	if (!known)
		return;
	__u64 work = known->work;
	if (bpf_map_delete_elem(&inodes, &inode))
		return;
	__sync_fetch_and_add(&dirty_at[place_of_inode(&inode)], -1);
	__sync_fetch_and_add(&tallies.inodes, -1);
	struct wb_state *state = bpf_map_lookup_elem(&wbs, &work);
	__u64 wb = state ? state->wb : 0;
	/* The last inode clears the priorities. A task that arrives just then is missing until its
	 * next inode: a wake-up may come late, but each end is reported. */
	if (state && __sync_fetch_and_add(&state->inodes, -1) == 1) {
		state->low = 0;
		state->high = 0;
	}
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_WRITEBACK, kind);
	if (!event)
		return;
	event->thing = inode;
	event->second = wb;
	fill_current(event);
	send(event, false);
}

SEC("tp_btf/writeback_single_inode")
int BPF_PROG(inode_cleaned, struct inode *inode)
{
	if (entries(inodes) <= 0)
		return 0;
	struct inode_bits bits = bits_of(inode);
	if (!(bits.state & bits.dirty_pages))
		end_inode((__u64)inode, TEK_KTHREAD_INODE_CLEANED);
	return 0;
}

/* A dirty inode that is deleted has pages, and the kernel removes them in the end. The end of
 * an inode has no tracepoint, and functions cannot be hooked on every kernel. */
static __always_inline void end_if_gone(struct inode *inode, __u32 place)
{
	if (!dirty_at[place])
		return;
	struct inode_bits bits = bits_of(inode);
	if (bits.state & bits.freeing)
		end_inode((__u64)inode, TEK_KTHREAD_INODE_GONE);
}

/* Used where page_left() is not attached. */
SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(inode_gone, struct folio *folio)
{
	struct inode *inode = BPF_CORE_READ(folio->mapping, host);
	end_if_gone(inode, place_of_number((__u64)inode));
	return 0;
}

SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(throttled, struct bdi_writeback *wb)
{
	struct member member = {};
	if (!find_member(&member))
		return 0;
	__u64 work = (__u64)wb + bpf_core_field_offset(struct bdi_writeback, dwork) +
		     bpf_core_field_offset(struct delayed_work, work);
	/* The task sleeps until a timer wakes it. Some kernels run timers in a thread of a CPU. */
	__u32 key = bpf_get_smp_processor_id() | TEK_KTHREAD_KTIMERS << 16;
	int *ktimers = bpf_map_lookup_elem(&cpu_threads, &key);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_WRITEBACK, TEK_KTHREAD_THROTTLED);
	if (!event)
		return 0;
	event->thing = work;
	event->second = (__u64)wb;
	event->kthread = ktimers ? *ktimers : 0;
	fill_member(event, &member);
	send(event, event->kthread && changes(&member, event->kthread));
	return 0;
}

#endif
