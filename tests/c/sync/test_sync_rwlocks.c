/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every kind of read-write lock of lib/sync, by the same tests. */
#include "fork_copy.h"
#include "sync_crowd.h"
#include "watchdog.h"

#include "sync/rwlock.h"

#include <errno.h>

/* The parameters of a test: the kind of the lock, and the side that the lock prefers. */
struct subject {
	const struct tek_rwlock_kind *kind;
	unsigned char prefers;
};

static const struct subject *subject;
static const struct tek_rwlock_kind *kind;
static struct tek_sync_rwlock lock;
static unsigned int times;
static atomic_int inside, writers, finished;
static unsigned int one, other;

static void begin(void **state)
{
	subject = *state;
	kind = subject->kind;
	memset(&lock, 0, sizeof(lock));
	lock.prefers = subject->prefers;
	atomic_store(&finished, 0);
}

static void read_lock(void)
{
	expect(kind->read_until(&lock, TEK_FOR_EVER) == 0);
}

static void write_lock(void)
{
	expect(kind->write_until(&lock, TEK_FOR_EVER) == 0);
}

/* ---- exclusion and progress ---- */

static void examine(void)
{
	atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed);
	expect(atomic_load_explicit(&writers, memory_order_relaxed) == 0);
	expect(one == other);
	atomic_fetch_sub_explicit(&inside, 1, memory_order_relaxed);
}

static void change(void)
{
	expect(atomic_fetch_add_explicit(&writers, 1, memory_order_relaxed) == 0);
	expect(atomic_load_explicit(&inside, memory_order_relaxed) == 0);
	expect(one++ == other);
	other++;
	atomic_fetch_sub_explicit(&writers, 1, memory_order_relaxed);
}

/* Returns whether it has got it. */
static bool ask(bool writes, unsigned int random)
{
	const struct timespec soon = in_ms(CLOCK_MONOTONIC, random % 2);
	int (*until)(struct tek_sync_rwlock *, struct tek_until) = writes ? kind->write_until
									  : kind->read_until;
	int error;

	switch (random % 8) {
	case 0:
		return writes ? kind->try_write(&lock) : kind->try_read(&lock);
	case 1:
		error = until(&lock, (struct tek_until){CLOCK_MONOTONIC, &soon});
		expect(error == 0 || error == ETIMEDOUT);
		return error == 0;
	default:
		expect(until(&lock, TEK_FOR_EVER) == 0);
		return true;
	}
}

static void *use(void *argument)
{
	unsigned int state = (unsigned int)(uintptr_t)argument * 7919 + 1;

	for (unsigned int done = 0; done < times;) {
		const unsigned int random = next_random(&state);
		const bool writes = random % 4 == 0;
		if (!ask(writes, random >> 2)) {
			sched_yield();
			continue;
		}
		if (writes)
			change();
		else
			examine();
		if (random % 64 == 0)
			sched_yield();
		if (writes)
			kind->unlock_write(&lock);
		else
			kind->unlock_read(&lock);
		done++;
	}
	return NULL;
}

static void use_by(unsigned int count)
{
	times = kind->sleeps ? 3000 / count : count <= 2 ? 1000 : 100 / count + 2;
	run_crowd(count, use);
	assert_int_equal(atomic_load(&wrong), 0);
	/* No thread has it any more. */
	assert_true(kind->try_write(&lock));
	kind->unlock_write(&lock);
}

static void writers_are_alone_and_everybody_comes_on(void **state)
{
	static const unsigned int counts[] = {1, 2, 3, 8, CROWD_MOST};

	begin(state);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		use_by(counts[i]);
}

static void signals_disturb_nobody(void **state)
{
	begin(state);
	begin_signals();
	use_by(2);
	use_by(6);
	end_signals();
}

/* Readers hand it over to each other, so that it is never free of them. */
static void *read_without_gap(void *argument)
{
	static atomic_int in;

	(void)argument;
	while (!atomic_load(&finished)) {
		read_lock();
		atomic_fetch_add(&in, 1);
		for (int i = 0; i < 100 && atomic_load(&in) < 2 && !atomic_load(&finished); i++)
			sched_yield();
		atomic_fetch_sub(&in, 1);
		kind->unlock_read(&lock);
		sched_yield(); /* without preemption no other thread would ever run */
	}
	return NULL;
}

static void *write_a_few_times(void *argument)
{
	(void)argument;
	for (int i = 0; i < 5; i++) {
		write_lock();
		change();
		kind->unlock_write(&lock);
	}
	atomic_store(&finished, 1);
	return NULL;
}

static void readers_do_not_keep_writers_out(void **state)
{
	begin(state);
	pthread_t readers[3];
	for (int i = 0; i < 3; i++)
		readers[i] = start(read_without_gap, NULL);
	pthread_t writer = start(write_a_few_times, NULL);
	result_of(writer);
	for (int i = 0; i < 3; i++)
		result_of(readers[i]);
	assert_int_equal(atomic_load(&wrong), 0);
}

/* ---- try ---- */

static void trying_fails_where_a_holder_excludes_it(void **state)
{
	begin(state);
	assert_true(kind->try_read(&lock));
	assert_true(kind->try_read(&lock));
	assert_false(kind->try_write(&lock));
	kind->unlock_read(&lock);
	assert_false(kind->try_write(&lock));
	kind->unlock_read(&lock);
	for (int i = 0; i < 3; i++) {
		assert_true(kind->try_write(&lock));
		assert_false(kind->try_write(&lock));
		assert_false(kind->try_read(&lock));
		kind->unlock_write(&lock);
		assert_true(kind->try_read(&lock));
		assert_false(kind->try_write(&lock));
		kind->unlock_read(&lock);
	}
}

static void *write_once(void *argument)
{
	(void)argument;
	write_lock();
	kind->unlock_write(&lock);
	atomic_store(&finished, 1);
	return NULL;
}

static bool lets_readers_pass(void)
{
	return kind->recursive && subject->prefers != TEK_RWLOCK_WRITERS;
}

static void a_writer_that_waits_keeps_readers_out_where_it_is_to(void **state)
{
	begin(state);
	read_lock();
	pthread_t writer = start(write_once, NULL);
	if (lets_readers_pass()) {
		nap(20);
		for (int i = 0; i < 100; i++) {
			read_lock();
			kind->unlock_read(&lock);
		}
	} else {
		while (kind->try_read(&lock)) {
			kind->unlock_read(&lock);
			sched_yield();
		}
	}
	assert_int_equal(atomic_load(&finished), 0);
	kind->unlock_read(&lock);
	result_of(writer);
	assert_int_equal(atomic_load(&wrong), 0);
}

/* ---- points of time ---- */

static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};

static void expect_time_out(bool writes, clockid_t clock, struct timespec time)
{
	int error = (writes ? kind->write_until
			    : kind->read_until)(&lock, (struct tek_until){clock, &time});
	assert_int_equal(error, ETIMEDOUT);
}

static void time_runs_out(void **state)
{
	begin(state);
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		const struct timespec past[] = {{-1, 0}, {0, 0}, in_ms(clocks[i], 0)};
		assert_true(kind->try_write(&lock));
		for (int j = 0; j < 3; j++) {
			expect_time_out(false, clocks[i], past[j]);
			expect_time_out(true, clocks[i], past[j]);
		}
		expect_time_out(false, clocks[i], in_ms(clocks[i], 5));
		expect_time_out(true, clocks[i], in_ms(clocks[i], 5));
		kind->unlock_write(&lock);
		assert_true(kind->try_read(&lock));
		expect_time_out(true, clocks[i], in_ms(clocks[i], 5));
		expect_time_out(true, clocks[i], past[0]);
		/* And the lock is as if the request had not been made. */
		assert_true(kind->try_read(&lock));
		kind->unlock_read(&lock);
		kind->unlock_read(&lock);
		assert_true(kind->try_write(&lock));
		kind->unlock_write(&lock);
	}
}

static void what_is_no_time_is_refused_if_a_thread_has_to_wait(void **state)
{
	static const struct timespec none[] = {{0, -1}, {0, 1000000000}};

	begin(state);
	for (int i = 0; i < 2; i++) {
		const struct tek_until until = {CLOCK_REALTIME, &none[i]};
		assert_int_equal(kind->read_until(&lock, until), 0);
		assert_int_equal(kind->write_until(&lock, until), EINVAL);
		kind->unlock_read(&lock);
		assert_int_equal(kind->write_until(&lock, until), 0);
		assert_int_equal(kind->read_until(&lock, until), EINVAL);
		kind->unlock_write(&lock);
	}
}

static void *read_once(void *argument)
{
	(void)argument;
	read_lock();
	kind->unlock_read(&lock);
	atomic_store(&finished, 1);
	return NULL;
}

static void a_writer_that_gives_up_lets_readers_in(void **state)
{
	begin(state);
	read_lock();
	const struct timespec soon = in_ms(CLOCK_MONOTONIC, 30);
	pthread_t reader = start(read_once, NULL);
	assert_int_equal(kind->write_until(&lock, (struct tek_until){CLOCK_MONOTONIC, &soon}),
			 ETIMEDOUT);
	/* The first reader still has it. */
	result_of(reader);
	kind->unlock_read(&lock);
	assert_int_equal(atomic_load(&wrong), 0);
}

/* ---- its life ---- */

enum { FREED = 100 };

struct freed {
	struct tek_sync_rwlock lock;
	int users;
};
static struct freed *objects[FREED];

/* The last thread to give up an object frees it, as soon as it has the lock. */
static void *give_up(void *argument)
{
	const bool reads = (uintptr_t)argument % 2;

	for (int i = 0; i < FREED; i++) {
		struct freed *object = objects[i];
		if (reads) {
			kind->read_until(&object->lock, TEK_FOR_EVER);
			expect(object->users > 0);
			kind->unlock_read(&object->lock);
		}
		kind->write_until(&object->lock, TEK_FOR_EVER);
		const bool last = --object->users == 0;
		kind->unlock_write(&object->lock);
		if (last) {
			memset(object, 0xff, sizeof(*object));
			free(object);
		}
	}
	return NULL;
}

static void a_thread_that_has_it_last_may_free_it(void **state)
{
	begin(state);
	for (int i = 0; i < FREED; i++) {
		objects[i] = calloc(1, sizeof(*objects[i]));
		objects[i]->users = 3;
		objects[i]->lock.prefers = subject->prefers;
	}
	run_crowd(3, give_up);
	assert_int_equal(atomic_load(&wrong), 0);
}

static void *write_when_free(void *unused)
{
	atomic_fetch_add(&finished, 1);
	write_lock();
	kind->unlock_write(&lock);
	return unused;
}

/* The memory of a child while a writer waits: for a reader, then for a writer. */
static void one_adopted_by_a_child_has_its_holder_and_no_waiter(void **state)
{
	for (int writes = 0; writes < 2; writes++) {
		begin(state);
		if (writes)
			write_lock();
		else
			read_lock();
		pthread_t waiter = start(write_when_free, NULL);
		assert_true(becomes(&finished, 1));
		nap(20);
		struct tek_sync_rwlock childs;
		copy_as_fork_does(&childs, &lock, sizeof(childs));
		(writes ? kind->unlock_write : kind->unlock_read)(&lock);
		result_of(waiter);
		if (kind == &tek_sync__rwlock_park)
			childs.park.state |= 1; /* GUARD: a thread is inside an operation */
		kind->adopt(&childs, writes);
		assert_false(kind->try_write(&childs));
		(writes ? kind->unlock_write : kind->unlock_read)(&childs);
		for (int i = 0; i < 2; i++) {
			assert_true(kind->try_write(&childs));
			assert_false(kind->try_read(&childs));
			kind->unlock_write(&childs);
			assert_true(kind->try_read(&childs));
			assert_false(kind->try_write(&childs));
			kind->unlock_read(&childs);
		}
	}
}

static void every_kind_is_found_by_its_name(void **state)
{
	(void)state;
	for (const struct tek_rwlock_kind *const *each = tek_sync__rwlock_kinds; *each; each++)
		assert_ptr_equal(tek_sync__rwlock_kind_named((*each)->name), *each);
	assert_null(tek_sync__rwlock_kind_named("none"));
}

static struct subject park = {&tek_sync__rwlock_park, TEK_RWLOCK_READERS};
static struct subject park_writers = {&tek_sync__rwlock_park, TEK_RWLOCK_WRITERS};
static struct subject pf = {&tek_sync__rwlock_pf, TEK_RWLOCK_READERS};

#define TEST_OF(test, subject) \
	{ \
#test " (" #subject ")", test, NULL, NULL, &subject \
	}
#define TESTS_OF(subject) \
	TEST_OF(writers_are_alone_and_everybody_comes_on, subject), \
		TEST_OF(signals_disturb_nobody, subject), \
		TEST_OF(trying_fails_where_a_holder_excludes_it, subject), \
		TEST_OF(a_writer_that_waits_keeps_readers_out_where_it_is_to, subject), \
		TEST_OF(time_runs_out, subject), \
		TEST_OF(what_is_no_time_is_refused_if_a_thread_has_to_wait, subject), \
		TEST_OF(a_writer_that_gives_up_lets_readers_in, subject), \
		TEST_OF(a_thread_that_has_it_last_may_free_it, subject), \
		TEST_OF(one_adopted_by_a_child_has_its_holder_and_no_waiter, subject)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_found_by_its_name),
		TESTS_OF(park),
		TESTS_OF(park_writers),
		TEST_OF(readers_do_not_keep_writers_out, park_writers),
		TESTS_OF(pf),
		TEST_OF(readers_do_not_keep_writers_out, pf),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, find_host, NULL);
}
