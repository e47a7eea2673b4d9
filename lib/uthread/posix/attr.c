/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/attr.h"

#include "base/next.h"
#include "uthread/posix/sched.h"

#include <errno.h>
#include <string.h>

/* A size that no program sets, so that it can be found again. */
#define ODD_SIZE ((size_t)0x00fedc00)
#define NOWHERE ((size_t)-1)

/*
 * An unset size reads as the C library's default, which differs from the engine's. The place of the
 * size in the object, which reads 0 until it is set, is searched at the start.
 */
static size_t size_lies_at = NOWHERE;
static size_t default_stack_bytes; /* as the C library had it at the start */
static size_t
	wanted_stack_bytes; /* as the program set it: of threads without a size; 0: it did not */
static size_t page_guard_bytes;

static size_t stack_bytes_of(const pthread_attr_t *attr)
{
	size_t bytes = 0;
	pthread_attr_getstacksize(attr, &bytes);
	return bytes;
}

static void find_size(void)
{
	pthread_attr_t before, after;
	size_t word;

	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	if (pthread_attr_init(&before) != 0)
		return;
	default_stack_bytes = stack_bytes_of(&before);
	pthread_attr_getguardsize(&before, &page_guard_bytes);
	if (pthread_attr_init(&after) == 0 && pthread_attr_setstacksize(&after, ODD_SIZE) == 0) {
		for (size_t at = 0; at + sizeof(word) <= sizeof(after); at += sizeof(word)) {
			memcpy(&word, (const char *)&after + at, sizeof(word));
			if (word != ODD_SIZE)
				continue;
			memcpy(&word, (const char *)&before + at, sizeof(word));
			if (word == 0)
				size_lies_at = at;
		}
		pthread_attr_destroy(&after);
	}
	pthread_attr_destroy(&before);
}

void tek_ut__attr_start(void)
{
	find_size();
}

void tek_ut__attr_default_changed(void)
{
	pthread_attr_t attr;

	if (pthread_getattr_default_np(&attr) != 0)
		return;
	size_t bytes = stack_bytes_of(&attr);
	wanted_stack_bytes = bytes == default_stack_bytes ? 0 : bytes;
	pthread_attr_destroy(&attr);
}

static bool states_size(const pthread_attr_t *attr, size_t bytes)
{
	size_t word;

	if (size_lies_at == NOWHERE)
		return bytes != default_stack_bytes;
	memcpy(&word, (const char *)attr + size_lies_at, sizeof(word));
	return word != 0;
}

static void read_stack(const pthread_attr_t *attr, struct tek_attr *read)
{
	void *low = NULL;
	size_t bytes = 0, stated = stack_bytes_of(attr);

	read->stack_bytes = states_size(attr, stated) ? stated : wanted_stack_bytes;
	/* Without a stack the C library returns an address so far below 0 as the size. */
	pthread_attr_getstack(attr, &low, &bytes);
	if (!low || (uintptr_t)low + bytes == 0)
		return;
	if (!bytes) { /* pthread_attr_setstackaddr(): only the end is known */
		bytes = default_stack_bytes;
		low = (char *)low - bytes;
	}
	read->stack = low;
	read->stack_bytes = bytes;
}

/* Since glibc 2.32. */
static void read_mask(const pthread_attr_t *attr, struct tek_attr *read)
{
	int (*get)(const pthread_attr_t *, sigset_t *) = TEK_REAL(pthread_attr_getsigmask_np);
	sigset_t set;

	if (!get || get(attr, &set) != 0)
		return;
	read->has_mask = true;
	memcpy(&read->mask, &set, sizeof(read->mask));
}

int tek_ut__attr_read(const pthread_attr_t *attr, struct tek_attr *read)
{
	struct sched_param param;
	int state, inherit;

	*read = (struct tek_attr){.stack_bytes = wanted_stack_bytes,
				  .guard_bytes = page_guard_bytes};
	if (!attr)
		return 0;
	if (pthread_attr_getdetachstate(attr, &state) != 0 ||
	    pthread_attr_getinheritsched(attr, &inherit) != 0)
		return EINVAL;
	read->detached = state == PTHREAD_CREATE_DETACHED;
	pthread_attr_getguardsize(attr, &read->guard_bytes);
	read_stack(attr, read);
	read_mask(attr, read);
	if (inherit != PTHREAD_EXPLICIT_SCHED)
		return 0;
	read->explicit_sched = true;
	pthread_attr_getschedpolicy(attr, &read->policy);
	pthread_attr_getschedparam(attr, &param);
	read->priority = param.sched_priority;
	return tek_ut__sched_check(read->policy, read->priority);
}

int tek_ut__attr_of(struct tek_posix *posix, pthread_attr_t *attr)
{
	struct sched_param param = {.sched_priority = atomic_load(&posix->priority)};
	const int policy = atomic_load(&posix->policy);

	/* The first thread's stack: the C library knows the limits of the process. */
	if (tek_ut__posix_thread(posix) == tek_ut__posix_first.thread) {
		int error = TEK_REAL(pthread_getattr_np)(tek_ut__posix_first.handle, attr);
		if (error)
			return error;
	} else {
		int error = pthread_attr_init(attr);
		if (error)
			return error;
		pthread_attr_setstack(attr, posix->stack, posix->stack_bytes);
		pthread_attr_setguardsize(attr, posix->guard_bytes);
	}
	if (tek_ut__posix_flags(posix) & TEK_POSIX_DETACHED)
		pthread_attr_setdetachstate(attr, PTHREAD_CREATE_DETACHED);
	/* The C library rejects a policy of the engine's own. */
	if (pthread_attr_setschedpolicy(attr, policy) == 0)
		pthread_attr_setschedparam(attr, &param);
	/* Not the CPUs that its worker is pinned to. */
	cpu_set_t cpus;
	if (tek_ut__sched_get_cpus(posix, sizeof(cpus), &cpus) == 0)
		TEK_REAL(pthread_attr_setaffinity_np)(attr, sizeof(cpus), &cpus);
	return 0;
}
