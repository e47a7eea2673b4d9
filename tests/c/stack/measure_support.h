/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that know how much of their stack they used, and what TEK measured of it.  Programs that
 * include this are linked with --wrap for the functions that begin with __wrap_: each measure is
 * heard of, and no thread goes unmeasured.
 */
#ifndef TEK_TESTS_MEASURE_SUPPORT_H
#define TEK_TESTS_MEASURE_SUPPORT_H

#include "stack_support.h"

#include "stack/kind.h"
#include "threads/thread.h"

#include <sys/mman.h>

enum { KIB = 1024, MIB = 1024 * KIB };

/* The newest measure of any thread. */
static struct tek_stack_use newest;

bool __real_tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use);
bool __wrap_tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use)
{
	newest = *use;
	return __real_tek__kind_note(thread, use);
}

/* No site settles: each thread is measured. */
bool __wrap_tek__site_wants_measure(unsigned short site);
bool __wrap_tek__site_wants_measure(unsigned short site)
{
	(void)site;
	return true;
}

struct job {
	uintptr_t (*use)(size_t bytes);
	size_t bytes;
	size_t truth; /* bytes that were used: from the lowest one written to the end */
	struct tek_stack_info live;
	int error;
};

static inline void *work(void *argument)
{
	struct job *job = argument;
	job->truth = stack_end() - job->use(job->bytes);
	job->error = tek_stack_get(pthread_self(), &job->live);
	return NULL;
}

static inline void run(struct job *job, const pthread_attr_t *attr)
{
	pthread_t thread;
	newest = (struct tek_stack_use){0};
	assert_int_equal(pthread_create(&thread, attr, work, job), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static inline void assert_right(const struct job *job)
{
	assert_int_equal(job->error, 0);
	assert_in_range(job->truth, job->live.peak_bytes, job->live.bound_bytes);
	assert_in_range(job->truth, newest.peak_bytes, newest.bound_bytes);
}

/* It was written byte by byte, so the number is the truth where that is known at all. */
static inline void assert_peak_is_right(const struct job *job)
{
	assert_right(job);
	assert_int_equal(job->live.peak_bytes, job->truth);
	assert_int_equal(newest.peak_bytes, job->truth);
}

static inline void assert_exact(const struct job *job)
{
	assert_peak_is_right(job);
	assert_int_equal(job->live.bound_bytes, job->truth);
	assert_int_equal(newest.bound_bytes, job->truth);
	assert_int_equal(job->live.exact, 1);
	assert_true(newest.flags & TEK_STACK_EXACT);
}

__attribute__((noinline, unused)) static uintptr_t use_zeros(size_t bytes)
{
	volatile char *buffer = alloca(bytes);
	for (size_t i = bytes; i-- > 0;)
		buffer[i] = 0;
	return (uintptr_t)buffer;
}

/* Memory of the program's own for a stack. */
static inline void run_on_own_stack(struct job *job, char *memory, size_t bytes)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, memory, bytes), 0);
	run(job, &attr);
	pthread_attr_destroy(&attr);
}

static inline char *new_memory(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

#endif
