/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The number of page cache pages that critical tasks read in, for their share in kswapd's work.
 *
 * Pages are counted for each inode. All belong to the first critical task that brought a page of
 * the inode, because a page that leaves has no owner. No events: userland reads `brought`.
 */
#ifndef TEK_PAGE_CACHE_H
#define TEK_PAGE_CACHE_H

#include "writeback.h"

/* The counted pages of an inode. */
struct cached {
	long long pages;
	int tid; /* the owner of the pages */
	int spare;
};

/* inode -> its counted pages */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct cached);
} cached SEC(".maps");

__u32 cached_at[1 << PLACE_BITS];

/* tid -> pages */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, int);
	__type(value, long long);
} brought SEC(".maps");

static __always_inline __u32 pages_of(struct folio *folio)
{
	struct folio___wrapped *wrapped = (void *)folio;
	struct folio___counted *counted = (void *)folio;
	struct folio___before *before = (void *)folio;
	__u64 flags = bpf_core_field_exists(wrapped->flags.f) ? BPF_CORE_READ(wrapped, flags.f)
							      : BPF_CORE_READ(folio, flags);
	if (!(flags >> bpf_core_enum_value(enum pageflags___tek, PG_head___tek) & 1))
		return 1;
	if (bpf_core_field_exists(counted->_nr_pages))
		return BPF_CORE_READ(counted, _nr_pages);
	if (bpf_core_field_exists(before->_folio_nr_pages))
		return BPF_CORE_READ(before, _folio_nr_pages);
	return 1;
}

static __always_inline bool count_for(int tid, long long pages)
{
	long long *sum = bpf_map_lookup_elem(&brought, &tid);
	if (sum)
		__sync_fetch_and_add(sum, pages);
	return sum;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_came, struct folio *folio)
{
	struct member member = {};
	if (!find_member(&member) || member.via)
		return 0;
	__u64 inode = (__u64)BPF_CORE_READ(folio, mapping, host);
	long long pages = pages_of(folio);
	struct cached *known = bpf_map_lookup_elem(&cached, &inode);
	if (known) {
		/* The pages of a task that has ended become this task's. */
		if (count_for(known->tid, pages)) {
			__sync_fetch_and_add(&known->pages, pages);
			return 0;
		}
		known->tid = member.tid;
		pages += known->pages;
		known->pages = pages;
	} else {
		struct cached fresh = {.tid = member.tid, .pages = pages};
		__u32 place = place_of_number(inode);
		__sync_fetch_and_add(&cached_at[place], 1);
		if (bpf_map_update_elem(&cached, &inode, &fresh, BPF_NOEXIST)) {
			__sync_fetch_and_add(&cached_at[place], -1);
			__sync_fetch_and_add(&tallies.lost[TEK_KTHREAD_PAGE_CACHE], 1);
			return 0;
		}
	}
	if (!count_for(member.tid, pages) &&
	    bpf_map_update_elem(&brought, &member.tid, &pages, BPF_NOEXIST))
		__sync_fetch_and_add(&tallies.lost[TEK_KTHREAD_PAGE_CACHE], 1);
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(page_left, struct folio *folio)
{
	struct inode *host = BPF_CORE_READ(folio->mapping, host);
	__u64 inode = (__u64)host;
	__u32 place = place_of_number(inode);
	end_if_gone(host, place);
	if (!cached_at[place])
		return 0;
	struct cached *known = bpf_map_lookup_elem(&cached, &inode);
	if (!known)
		return 0;
	/* Earlier pages of the inode look the same, so at most the counted pages are subtracted. */
	long long pages = pages_of(folio);
	if (pages > known->pages)
		pages = known->pages;
	count_for(known->tid, -pages);
	if (__sync_fetch_and_add(&known->pages, -pages) <= pages &&
	    !bpf_map_delete_elem(&cached, &inode))
		__sync_fetch_and_add(&cached_at[place], -1);
	return 0;
}

#endif
