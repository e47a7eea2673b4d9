/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/area.h"

#include "base/page.h"
#include "base/real.h"
#include "threads/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
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
static atomic_size_t offset; /* 0: not found */
static atomic_uint agreed;   /* threads, one after the other, that said so */
static atomic_uint tries;
static atomic_int agreed_by; /* the last of them */

static bool is_trusted(void)
{
	return atomic_load_explicit(&agreed, memory_order_acquire) >= AGREE;
}

/* True if this can be the block of the thread with its structure at `self`. */
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

/* The calling thread found the words there; only different threads count. */
static void agree(size_t found)
{
	pid_t tid = tek__gettid();

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

bool tek__area_ask(struct tek_area *area)
{
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	if (pthread_equal(pthread_self(), first_handle))
		return first_area(area);
	if (tek__c_library.pthread_getattr_np(pthread_self(), &attr))
		return false;
	bool known = pthread_attr_getstack(&attr, &low, &bytes) == 0;
	*area = (struct tek_area){.low = (uintptr_t)low, .end = (uintptr_t)low + bytes};
	pthread_attr_getguardsize(&attr, &area->guard_bytes);
	pthread_attr_destroy(&attr);
	if (known)
		agree(find((uintptr_t)pthread_self(), area));
	return known;
}

/* Whether the guard is where the words say: the kernel tells what cannot be read. */
static bool has_guard(const struct words *words)
{
	const uintptr_t last = words->block + words->guard_bytes - sizeof(uint64_t);

	/* It reads the mask of signals before it looks at what is to become of it. */
	return syscall(SYS_rt_sigprocmask, -1, last, NULL, sizeof(uint64_t)) == -1 &&
	       errno == EFAULT;
}

/*
 * Words that can mean nothing else.  Asking the C library instead would give the thread a malloc
 * arena, 64 MiB of addresses, which mlockall() counts as locked memory.
 */
__attribute__((cold)) static bool guess(struct tek_area *area)
{
	const uintptr_t self = (uintptr_t)pthread_self();
	const uintptr_t page_end = (self | (tek__page_bytes - 1)) + 1;
	const int saved = errno;
	struct words words;

	for (uintptr_t at = self + sizeof(uintptr_t); at + sizeof(words) <= page_end;
	     at += sizeof(uintptr_t)) {
		memcpy(&words, (const void *)at, sizeof(words));
		if (makes_sense(&words, self) && words.guard_bytes &&
		    words.block % tek__page_bytes == 0 && words.bytes % tek__page_bytes == 0 &&
		    words.block + words.bytes == page_end && has_guard(&words)) {
			errno = saved;
			agree(at - self);
			area_from(&words, area);
			return true;
		}
	}
	errno = saved;
	return false;
}

bool tek__area_of_self(struct tek_area *area)
{
	if (pthread_equal(pthread_self(), first_handle))
		return first_area(area);
	if (is_trusted())
		return read_area(area);
	return atomic_fetch_add(&tries, 1) < TRIES && guess(area);
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
