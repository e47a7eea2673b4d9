/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table's record of Fast threads that waited for threads that were not Fast. */
#include "inherit_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The kinds of what a thread holds. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

/* How much CPU time a holder uses while it is lifted. */
enum { HELD_MS = 5 };

/* The table as other processes see it: its first page. */
static const char *table(void)
{
	const char *directory = getenv("TEK_RUN_DIR");
	char path[128];

	snprintf(path, sizeof(path), "%s/%d.table", directory ? directory : "/run/tek",
		 (int)getpid());
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	const char *base = mmap(NULL, TEK_MODULES_OFFSET, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(base != MAP_FAILED);
	close(fd);
	return base;
}

static const struct tek_table_header *header(void)
{
	return (const struct tek_table_header *)table();
}

/* The record of an object; NULL: there is none. */
static const struct tek_inversion *record_of(unsigned int kind, const void *object)
{
	const struct tek_inversion *slots = (const struct tek_inversion *)(table() +
									   TEK_INVERSIONS_OFFSET);

	for (unsigned int i = 0; i < TEK_MAX_INVERSIONS; i++)
		if (slots[i].kind == kind && slots[i].object == (uintptr_t)object)
			return &slots[i];
	return NULL;
}

/* The present wait of a thread; NULL: none is recorded. */
static const struct tek_held_up *wait_of(pid_t tid)
{
	const struct tek_held_up *slots = (const struct tek_held_up *)(table() +
								       TEK_HELD_UP_OFFSET);

	for (unsigned int i = 0; i < TEK_MAX_HELD_UP; i++)
		if (slots[i].tid == (tek_u32)tid)
			return &slots[i];
	return NULL;
}

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void compute(unsigned int ms)
{
	const uint64_t end = cpu_ns() + ms * UINT64_C(1000000);

	while (cpu_ns() < end)
		;
}

/* The calls whose places are recorded: each stands in the middle of its function. */
#define STAY(call) \
	do { \
		const int error = (call); \
		__asm__ volatile(""); \
		return error; \
	} while (0)

ONE_COPY static int wait_for_mutex(pthread_mutex_t *lock)
{
	STAY(pthread_mutex_lock(lock));
}

ONE_COPY static int release_mutex(pthread_mutex_t *lock)
{
	STAY(pthread_mutex_unlock(lock));
}

ONE_COPY static int wait_for_reader(pthread_rwlock_t *lock)
{
	STAY(pthread_rwlock_wrlock(lock));
}

ONE_COPY static int wait_for_signal(pthread_cond_t *condition, pthread_mutex_t *lock)
{
	STAY(pthread_cond_wait(condition, lock));
}

/* Whether an address lies in one of these small functions. */
static bool is_in(tek_u64 address, const void *function)
{
	return address > (uintptr_t)function && address < (uintptr_t)function + 128;
}

struct waiter_of {
	pthread_t thread;
	void (*wait)(struct waiter_of *);
	pthread_mutex_t *mutex;
	pthread_t joined;
	int priority; /* NOT_FAST: none */
	_Atomic pid_t tid;
};

enum { NOT_FAST = 100 };

static void *waiter_of_main(void *argument)
{
	struct waiter_of *waiter = argument;

	pthread_setname_np(pthread_self(), "touch");
	if (waiter->priority != NOT_FAST)
		set_tek(pthread_self(), waiter->priority);
	waiter->tid = own_tid();
	waiter->wait(waiter);
	return NULL;
}

static void begin(struct waiter_of *waiter)
{
	waiter->tid = 0;
	assert_int_equal(pthread_create(&waiter->thread, NULL, waiter_of_main, waiter), 0);
	await(&waiter->tid);
}

static void lock_once(struct waiter_of *waiter)
{
	wait_for_mutex(waiter->mutex);
	pthread_mutex_unlock(waiter->mutex);
}

/* The caller holds the mutex while a Fast thread waits for it, and then computes or sleeps. */
static void hold_up(pthread_mutex_t *lock, void (*act)(unsigned int), unsigned int ms)
{
	struct waiter_of waiter = {.wait = lock_once, .mutex = lock};

	pthread_mutex_lock(lock);
	begin(&waiter);
	assert_true(becomes(own_tid(), true));
	act(ms);
	release_mutex(lock);
	pthread_join(waiter.thread, NULL);
}

static void a_wait_for_a_mutex_is_recorded_with_its_threads_and_calls(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const tek_u64 lifts = header()->lifts, inversions = header()->inversions;
	const tek_u64 lifted_ns = header()->lifted_ns, inverted_ns = header()->inverted_ns;

	pthread_setname_np(pthread_self(), "logger");
	hold_up(&lock, compute, HELD_MS);
	const struct tek_inversion *record = record_of(TEK_WAITS_MUTEX, &lock);
	assert_non_null(record);
	assert_int_equal(record->seq % 2, 0);
	assert_int_equal(record->waits, 1);
	assert_true(record->wait_ns >= HELD_MS * 1000000);
	assert_true(record->waited_ns == record->wait_ns);
	assert_true(record->lifted_ns >= HELD_MS * 1000000);
	assert_true(record->lifted_ns <= record->wait_ns);
	/* Read by two threads: the clocks of two CPUs may differ. */
	assert_true(record->lifted_cpu_ns >= HELD_MS * 1000000 / 2);
	assert_true(record->lifted_cpu_ns <= record->lifted_ns);
	assert_true(record->cost_ns == 0 || record->cost_ns >= record->wait_ns);
	assert_int_equal(record->holder_tid, own_tid());
	assert_string_equal((const char *)record->waiter_name, "touch");
	assert_string_equal((const char *)record->holder_name, "logger");
	assert_true(is_in(record->call, (const void *)wait_for_mutex));
	assert_true(is_in(record->release, (const void *)release_mutex));
	assert_int_equal(header()->lifts, lifts + 1);
	assert_int_equal(header()->inversions, inversions + 1);
	assert_true(header()->lifted_ns - lifted_ns >= HELD_MS * 1000000);
	assert_true(header()->inverted_ns - inverted_ns == record->wait_ns);
}

static void waits_of_one_place_are_one_record_with_the_longest(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	hold_up(&lock, compute, HELD_MS);
	hold_up(&lock, compute, 6 * HELD_MS);
	hold_up(&lock, compute, HELD_MS);
	const struct tek_inversion *record = record_of(TEK_WAITS_MUTEX, &lock);
	assert_non_null(record);
	assert_int_equal(record->waits, 3);
	assert_true(record->wait_ns >= 6 * HELD_MS * 1000000);
	assert_true(record->waited_ns >= record->wait_ns + 2 * HELD_MS * 1000000);
}

static void write_once(struct waiter_of *waiter)
{
	(void)waiter;
	wait_for_reader(&rwlock);
	pthread_rwlock_unlock(&rwlock);
}

static void a_wait_for_a_reader_is_recorded(void **state)
{
	(void)state;
	need_real_time();
	struct waiter_of waiter = {.wait = write_once};

	pthread_rwlock_rdlock(&rwlock);
	begin(&waiter);
	assert_true(becomes(own_tid(), true));
	pthread_rwlock_unlock(&rwlock);
	pthread_join(waiter.thread, NULL);
	const struct tek_inversion *record = record_of(TEK_WAITS_RWLOCK, &rwlock);
	assert_non_null(record);
	assert_int_equal(record->holder_tid, own_tid());
	assert_true(is_in(record->call, (const void *)wait_for_reader));
}

static bool is_signalled;

static void await_signal(struct waiter_of *waiter)
{
	pthread_mutex_lock(&mutex);
	waiter->tid = own_tid();
	while (!is_signalled)
		wait_for_signal(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
}

static void the_mutex_of_a_condition_variable_is_recorded(void **state)
{
	(void)state;
	need_real_time();
	struct waiter_of waiter = {.wait = await_signal};

	is_signalled = false;
	begin(&waiter);
	assert_true(sleeps(waiter.tid));
	pthread_mutex_lock(&mutex);
	is_signalled = true;
	pthread_cond_signal(&cond);
	assert_true(becomes(own_tid(), true));
	compute(HELD_MS);
	release_mutex(&mutex);
	pthread_join(waiter.thread, NULL);
	const struct tek_inversion *record = record_of(TEK_WAITS_COND, &mutex);
	assert_non_null(record);
	assert_int_equal(record->holder_tid, own_tid());
	/* Read by two threads: the clocks of two CPUs may differ. */
	assert_true(record->lifted_cpu_ns >= HELD_MS * 1000000 / 2);
	assert_true(is_in(record->call, (const void *)wait_for_signal));
}

static void *joined_main(void *argument)
{
	_Atomic pid_t *tid = argument;

	pthread_setname_np(pthread_self(), "loader");
	*tid = own_tid();
	becomes(own_tid(), true);
	compute(HELD_MS);
	return NULL;
}

static void join_once(struct waiter_of *waiter)
{
	pthread_join(waiter->joined, NULL);
}

static void a_join_is_recorded_with_what_the_thread_used_until_its_end(void **state)
{
	(void)state;
	need_real_time();
	struct waiter_of waiter = {.wait = join_once};
	_Atomic pid_t tid = 0;

	assert_int_equal(pthread_create(&waiter.joined, NULL, joined_main, &tid), 0);
	await(&tid);
	begin(&waiter);
	pthread_join(waiter.thread, NULL);
	const struct tek_inversion *record = record_of(TEK_WAITS_JOIN, NULL);
	assert_non_null(record);
	assert_string_equal((const char *)record->holder_name, "loader");
	/* Read by two threads: the clocks of two CPUs may differ. */
	assert_true(record->lifted_cpu_ns >= HELD_MS * 1000000 / 2);
	assert_true(record->lifted_cpu_ns <= record->wait_ns);
	assert_true(record->release == (uintptr_t)joined_main);
}

static void a_present_wait_is_listed_until_it_is_over(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct waiter_of waiter = {.wait = lock_once, .mutex = &lock};

	pthread_mutex_lock(&lock);
	begin(&waiter);
	assert_true(becomes(own_tid(), true));
	const struct tek_held_up *wait = wait_of(waiter.tid);
	assert_non_null(wait);
	assert_int_equal(wait->kind, TEK_WAITS_MUTEX);
	assert_int_equal(wait->holder, own_tid());
	assert_true(wait->object == (uintptr_t)&lock);
	assert_true(is_in(wait->call, (const void *)wait_for_mutex));
	pthread_mutex_unlock(&lock);
	pthread_join(waiter.thread, NULL);
	assert_null(wait_of(waiter.tid));
}

static void an_ordinary_waiter_is_not_recorded(void **state)
{
	(void)state;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct waiter_of waiter = {.wait = lock_once, .mutex = &lock, .priority = NOT_FAST};

	pthread_mutex_lock(&lock);
	begin(&waiter);
	assert_true(sleeps(waiter.tid));
	assert_null(wait_of(waiter.tid));
	pthread_mutex_unlock(&lock);
	pthread_join(waiter.thread, NULL);
	assert_null(record_of(TEK_WAITS_MUTEX, &lock));
}

static void a_wait_for_a_fast_thread_is_no_inversion(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct waiter_of waiter = {.wait = lock_once, .mutex = &lock};

	set_tek(pthread_self(), 0);
	pthread_mutex_lock(&lock);
	begin(&waiter);
	assert_true(sleeps(waiter.tid));
	pthread_mutex_unlock(&lock);
	pthread_join(waiter.thread, NULL);
	set_other(pthread_self());
	assert_null(record_of(TEK_WAITS_MUTEX, &lock));
}

static void the_longest_waits_stay_in_the_table(void **state)
{
	(void)state;
	need_real_time();
	static pthread_mutex_t locks[TEK_MAX_INVERSIONS + 4];
	const unsigned int count = sizeof(locks) / sizeof(locks[0]);
	unsigned int found = 0;

	for (unsigned int i = 0; i < count; i++) {
		pthread_mutex_init(&locks[i], NULL);
		/* The table has waits of other tests, which are shorter. */
		hold_up(&locks[i], sleep_ms, i == 1 ? 150 : 100);
	}
	assert_non_null(record_of(TEK_WAITS_MUTEX, &locks[1]));
	for (unsigned int i = 0; i < count; i++)
		found += record_of(TEK_WAITS_MUTEX, &locks[i]) != NULL;
	assert_int_equal(found, TEK_MAX_INVERSIONS);
}

static void *idle_main(void *argument)
{
	return argument;
}

static int child(void)
{
	pthread_t thread;

	/* It gets a table of its own with its first thread. */
	pthread_create(&thread, NULL, idle_main, NULL);
	pthread_join(thread, NULL);
	return header()->inversions || header()->lifts || record_of(TEK_WAITS_JOIN, NULL);
}

static void the_child_of_a_fork_begins_without_records(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	hold_up(&lock, compute, HELD_MS);
	assert_int_equal(in_child(child), 0);
}

/* The process has a table from its first call on. */
static int make_table(void **state)
{
	(void)state;
	return tek_thread_set_group(pthread_self(), TEK_NORMAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_for_a_mutex_is_recorded_with_its_threads_and_calls),
		cmocka_unit_test(waits_of_one_place_are_one_record_with_the_longest),
		cmocka_unit_test(a_wait_for_a_reader_is_recorded),
		cmocka_unit_test(the_mutex_of_a_condition_variable_is_recorded),
		cmocka_unit_test(a_join_is_recorded_with_what_the_thread_used_until_its_end),
		cmocka_unit_test(a_present_wait_is_listed_until_it_is_over),
		cmocka_unit_test(an_ordinary_waiter_is_not_recorded),
		cmocka_unit_test(a_wait_for_a_fast_thread_is_no_inversion),
		cmocka_unit_test(the_longest_waits_stay_in_the_table),
		cmocka_unit_test(the_child_of_a_fork_begins_without_records),
	};

	return cmocka_run_group_tests(tests, make_table, NULL);
}
