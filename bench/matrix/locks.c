/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rows in which touch waits for a lock. */
#include "row.h"

#include "../response/clock.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS 3

static pthread_mutex_t links[LINKS];
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;

/*
 * Of the row condvar, under links[0]: whether touch waits, and the time of the signal, or 0
 * before the signal.
 */
static bool waiting;
static uint64_t signalled_ns;

static void mutex_prepare(pthread_mutex_t *mutex, int pshared)
{
	pthread_mutexattr_t attr;
	must(pthread_mutexattr_init(&attr), "pthread_mutexattr_init");
	must(pthread_mutexattr_setpshared(&attr, pshared), "pthread_mutexattr_setpshared");
	if (inherit)
		must(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT),
		     "pthread_mutexattr_setprotocol");
	must(pthread_mutex_init(mutex, &attr), "pthread_mutex_init");
	pthread_mutexattr_destroy(&attr);
}

static void links_prepare(void)
{
	for (int i = 0; i < LINKS; i++)
		mutex_prepare(&links[i], PTHREAD_PROCESS_PRIVATE);
}

/*
 * Holds the mutex for PART_MS again and again, and computes as long without it: a mutex is not
 * fair, and without a pause touch might never get it. A thread that slept meanwhile would come
 * before the hogs when it wakes, and would seldom lose its CPU with the mutex.
 */
static void *hold(void *arg)
{
	pthread_mutex_t *mutex = arg;
	for (;;) {
		pthread_mutex_lock(mutex);
		work_ms(PART_MS);
		pthread_mutex_unlock(mutex);
		background_did();
		work_ms(PART_MS);
	}
	return NULL;
}

/* Holds its link while it waits for the next one. */
static void *hold_link(void *arg)
{
	pthread_mutex_t *mutex = arg;
	bool last = mutex == &links[LINKS - 1];
	for (;;) {
		pthread_mutex_lock(mutex);
		if (!last)
			pthread_mutex_lock(mutex + 1);
		work_ms(PART_MS);
		if (!last)
			pthread_mutex_unlock(mutex + 1);
		pthread_mutex_unlock(mutex);
		background_did();
		/* Each of the other threads needs the same CPU time. */
		sleep_until(clock_ns() + LINKS * PART_MS * NS_PER_MS);
	}
	return NULL;
}

static void mutex_start(void)
{
	thread_start("logger", hold, &links[0]);
}

static void mutex_wait(void)
{
	pthread_mutex_lock(&links[0]);
	pthread_mutex_unlock(&links[0]);
}

static void chain_start(void)
{
	static const char *const names[LINKS] = {"logger", "cache", "disk"};
	for (int i = 0; i < LINKS; i++)
		thread_start(names[i], hold_link, &links[i]);
}

static void *read_often(void *arg)
{
	(void)arg;
	for (;;) {
		pthread_rwlock_rdlock(&rwlock);
		work_ms(PART_MS);
		pthread_rwlock_unlock(&rwlock);
		background_did();
		/* A read-write lock prefers readers: without a pause touch might never get it. */
		work_ms(3 * PART_MS);
	}
	return NULL;
}

static void rwlock_start(void)
{
	thread_start("reader0", read_often, NULL);
	thread_start("reader1", read_often, NULL);
}

static void rwlock_wait(void)
{
	pthread_rwlock_wrlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
}

static void *feed(void *arg)
{
	(void)arg;
	for (;;) {
		work_ms(PAUSE_NS / NS_PER_MS);
		pthread_mutex_lock(&links[0]);
		if (waiting && !signalled_ns) {
			/* Before the signal: it wakes touch at once. */
			signalled_ns = clock_ns();
			pthread_cond_signal(&signalled);
			work_ms(PART_MS);
			background_did();
		}
		pthread_mutex_unlock(&links[0]);
	}
	return NULL;
}

static void condvar_start(void)
{
	thread_start("feeder", feed, NULL);
}

static uint64_t condvar_event(void)
{
	pthread_mutex_lock(&links[0]);
	waiting = true;
	while (!signalled_ns)
		pthread_cond_wait(&signalled, &links[0]);
	uint64_t at = signalled_ns;
	signalled_ns = 0;
	waiting = false;
	pthread_mutex_unlock(&links[0]);
	return at;
}

/*
 * A mutex without an owner in its word, as those of Rust, Go and musl are: 0, or 1 if it is locked,
 * or 2 if a thread may wait for it, too.
 */
static _Atomic uint32_t word;

static void word_lock(void)
{
	uint32_t unlocked = 0;
	if (atomic_compare_exchange_strong(&word, &unlocked, 1))
		return;
	while (atomic_exchange(&word, 2))
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void word_unlock(void)
{
	if (atomic_exchange(&word, 0) == 2)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *hold_word(void *arg)
{
	for (;;) {
		word_lock();
		work_ms(PART_MS);
		word_unlock();
		background_did();
		work_ms(PART_MS);
	}
	return arg;
}

static void word_start(void)
{
	thread_start("logger", hold_word, NULL);
}

static void word_wait(void)
{
	word_lock();
	word_unlock();
}

static void shared_prepare(void)
{
	mutex_prepare(&shared->mutex, PTHREAD_PROCESS_SHARED);
	if (child_start())
		hold(&shared->mutex);
}

static void shared_wait(void)
{
	pthread_mutex_lock(&shared->mutex);
	pthread_mutex_unlock(&shared->mutex);
}

const struct row lock_rows[] = {
	{.name = "mutex", .prepare = links_prepare, .start = mutex_start, .wait = mutex_wait},
	{.name = "chain", .prepare = links_prepare, .start = chain_start, .wait = mutex_wait},
	{.name = "rwlock", .start = rwlock_start, .wait = rwlock_wait},
	{.name = "condvar",
	 .prepare = links_prepare,
	 .start = condvar_start,
	 .event = condvar_event},
	{.name = "word-mutex", .start = word_start, .wait = word_wait},
	{.name = "shared-mutex", .prepare = shared_prepare, .wait = shared_wait},
	{.name = NULL},
};
