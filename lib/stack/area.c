/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/area.h"

#include "ident/process.h"
#include "stack/config.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * The C library keeps in its structure of a thread, which pthread_t points to, one behind the
 * other: the lowest address of the block, its size with the guard, and the guard's size.
 */
struct words {
	uintptr_t block;
	size_t bytes, guard_bytes;
};

enum {
	MOST_BYTES = 4096, /* of the C library's structure that are looked through */
	AGREE = 2,         /* threads that must agree */
	TRIES = 6,         /* threads that are looked at */
};

static uintptr_t first_end; /* behind the first thread's stack; 0: not known */
static pthread_t first_handle;

/* Where the words are, as an offset; and how it was found. Written by a few threads at first. */
static atomic_size_t offset;  /* 0: not found */
static atomic_uint agreed;    /* threads, one after the other, that said so */
static atomic_bool confirmed; /* and the C library did, of one of them */
static atomic_uint tries;
static atomic_int agreed_by; /* the last of them */

static bool is_trusted(void)
{
	/* Where stacks are not measured nothing but what others are told depends on it. */
	return atomic_load_explicit(&agreed, memory_order_acquire) >= AGREE &&
	       (atomic_load_explicit(&confirmed, memory_order_relaxed) || !tek__stack_is_on());
}

/* Whether this can be the block of the thread whose structure lies at `self`. */
static bool makes_sense(const struct words *words, uintptr_t self)
{
	uintptr_t end = words->block + words->bytes;

	return words->block && end > words->block && words->guard_bytes < words->bytes &&
	       words->guard_bytes % tek__page_bytes == 0 &&
	       words->block + words->guard_bytes < self && self < end;
}

static void area_from(const struct words *words, struct tek_area *area)
{
	*area = (struct tek_area){
		.low = words->block + words->guard_bytes,
		.end = words->block + words->bytes,
		.guard_bytes = words->guard_bytes,
	};
}

static bool read_area(struct tek_area *area)
{
	const uintptr_t self = (uintptr_t)pthread_self();
	struct words words;

	memcpy(&words, (const char *)self + atomic_load(&offset), sizeof(words));
	if (!makes_sense(&words, self))
		return false;
	area_from(&words, area);
	return true;
}

/* The first thread's. */
static bool first_area(struct tek_area *area)
{
	struct rlimit limit;

	if (!first_end)
		return false;
	*area = (struct tek_area){.end = first_end, .first = true};
	if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < first_end)
		area->low = (first_end - (uintptr_t)limit.rlim_cur) & ~(tek__page_bytes - 1);
	return true;
}

/* The words that say the same as `area`; 0 if there are none, or several. */
__attribute__((cold)) static size_t find(uintptr_t self, const struct tek_area *area)
{
	size_t found = 0;
	struct words words;

	for (size_t at = sizeof(uintptr_t);
	     at + sizeof(words) <= MOST_BYTES && self + at + sizeof(words) <= area->end;
	     at += sizeof(uintptr_t)) {
		memcpy(&words, (const char *)self + at, sizeof(words));
		if (!makes_sense(&words, self) || words.block + words.bytes != area->end ||
		    words.block + words.guard_bytes != area->low)
			continue;
		if (found)
			return 0;
		found = at;
	}
	return found;
}

/* The words were found there in the structure of this thread; only different threads count. */
static void agree(size_t found, pid_t tid)
{
	if (!found || is_trusted())
		return;
	if (atomic_load(&offset) != found || atomic_load(&agreed_by) == tid) {
		atomic_store(&offset, found);
		atomic_store(&agreed_by, tid);
		atomic_store(&agreed, 1);
		return;
	}
	atomic_fetch_add(&agreed, 1);
}

bool tek__area_learn_from(pthread_t handle, pid_t tid, struct tek_area *area)
{
	pthread_attr_t attr;
	void *low;
	size_t bytes, found;

	if (pthread_getattr_np(handle, &attr))
		return false;
	bool known = pthread_attr_getstack(&attr, &low, &bytes) == 0;
	*area = (struct tek_area){.low = (uintptr_t)low, .end = (uintptr_t)low + bytes};
	pthread_attr_getguardsize(&attr, &area->guard_bytes);
	pthread_attr_destroy(&attr);
	found = known ? find((uintptr_t)handle, area) : 0;
	if (found) {
		agree(found, tid);
		atomic_store(&confirmed, true);
	}
	return known;
}

bool tek__area_ask(struct tek_area *area)
{
	if (pthread_equal(pthread_self(), first_handle))
		return first_area(area);
	return tek__area_learn_from(pthread_self(), tek__gettid(), area);
}

/* Words that can mean nothing else, in the calling thread's structure. */
__attribute__((cold)) static void guess(void)
{
	const uintptr_t self = (uintptr_t)pthread_self();
	const uintptr_t page_end = (self | (tek__page_bytes - 1)) + 1;
	struct words words;

	for (uintptr_t at = self + sizeof(uintptr_t); at + sizeof(words) <= page_end;
	     at += sizeof(uintptr_t)) {
		memcpy(&words, (const void *)at, sizeof(words));
		if (makes_sense(&words, self) && words.guard_bytes &&
		    words.block % tek__page_bytes == 0 && words.bytes % tek__page_bytes == 0 &&
		    words.block + words.bytes == page_end) {
			agree(at - self, tek__gettid());
			return;
		}
	}
}

bool tek__area_of_self(struct tek_area *area)
{
	if (pthread_equal(pthread_self(), first_handle))
		return first_area(area);
	if (!is_trusted() && atomic_fetch_add(&tries, 1) < TRIES)
		guess();
	return is_trusted() && read_area(area);
}

bool tek__area_is_given(const pthread_attr_t *attr)
{
	void *low;
	size_t bytes;

	/* Where none was given its end is NULL. */
	return pthread_attr_getstack(attr, &low, &bytes) == 0 && (uintptr_t)low + bytes != 0;
}

bool tek__area_of(pthread_t handle, struct tek_area *area)
{
	struct words words;

	if (pthread_equal(handle, first_handle))
		return first_area(area);
	struct iovec to = {&words, sizeof(words)};
	struct iovec from = {(char *)handle + atomic_load(&offset), sizeof(words)};
	if (!is_trusted() ||
	    process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)sizeof(words) ||
	    !makes_sense(&words, (uintptr_t)handle))
		return false;
	area_from(&words, area);
	return true;
}

/*
 * The kernel puts the name of the file that it runs at the very end of the first thread's
 * stack, and a word of zeros behind it (fs/exec.c).
 */
void tek__area_start(void)
{
	const char *name = (const char *)getauxval(AT_EXECFN);

	if (getpid() != tek__gettid())
		return;
	first_handle = pthread_self();
	if (!name)
		return;
	uintptr_t end = (uintptr_t)name + strlen(name) + 1 + sizeof(uintptr_t);
	end = (end + tek__page_bytes - 1) & ~(tek__page_bytes - 1);
	if (end > (uintptr_t)&name)
		first_end = end;
}
