/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_rwlock_*() and pthread_barrier_*() of an ordinary program.  Meson runs it with the C
 * library's functions and with those of libtek-sync.so.  All tests must pass with each.
 */
#include "patience.h"
#include "uthread_posix.h"
#include "watchdog.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

static pthread_rwlock_t statically = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t for_writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_rwlock_t *lock;

/* From another thread: the results of the four ways to ask. */
static void *ask(void *argument)
{
	const struct timespec past = {0, 0}, real = in_ms(CLOCK_REALTIME, 3),
			      monotonic = in_ms(CLOCK_MONOTONIC, 3);
	int *errors = argument;

	errors[0] = pthread_rwlock_tryrdlock(lock);
	errors[1] = pthread_rwlock_timedrdlock(lock, &real);
	errors[2] = pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &monotonic);
	errors[3] = pthread_rwlock_trywrlock(lock);
	errors[4] = pthread_rwlock_timedwrlock(lock, &past);
	errors[5] = pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, &real);
	for (int i = 0; i < 6; i++)
		if (errors[i] == 0)
			pthread_rwlock_unlock(lock);
	return NULL;
}

static void expect_of_other_kinds(int reading, int reading_until, int writing, int writing_until)
{
	int errors[6];

	result_of(start(ask, errors));
	assert_int_equal(errors[0], reading);
	assert_int_equal(errors[1], reading_until);
	assert_int_equal(errors[2], reading_until);
	assert_int_equal(errors[3], writing);
	assert_int_equal(errors[4], writing_until);
	assert_int_equal(errors[5], writing_until);
}

static void use(pthread_rwlock_t *object)
{
	lock = object;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_rwlock_rdlock(lock), 0);
		assert_int_equal(pthread_rwlock_rdlock(lock), 0);
		expect_of_other_kinds(0, 0, EBUSY, ETIMEDOUT);
		assert_int_equal(pthread_rwlock_unlock(lock), 0);
		assert_int_equal(pthread_rwlock_unlock(lock), 0);
		assert_int_equal(pthread_rwlock_wrlock(lock), 0);
		expect_of_other_kinds(EBUSY, ETIMEDOUT, EBUSY, ETIMEDOUT);
		assert_int_equal(pthread_rwlock_unlock(lock), 0);
	}
	assert_int_equal(pthread_rwlock_trywrlock(lock), 0);
	assert_int_equal(pthread_rwlock_unlock(lock), 0);
	assert_int_equal(pthread_rwlock_destroy(lock), 0);
}

static void statically_initialised_ones_can_be_used(void **state)
{
	(void)state;
	use(&statically);
	use(&for_writers);
}

static void initialised_ones_can_be_used(void **state)
{
	pthread_rwlock_t object;
	pthread_rwlockattr_t attributes;

	(void)state;
	memset(&object, 0xff, sizeof(object));
	assert_int_equal(pthread_rwlock_init(&object, NULL), 0);
	use(&object);
	assert_int_equal(pthread_rwlockattr_init(&attributes), 0);
	assert_int_equal(pthread_rwlockattr_setkind_np(
				 &attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP),
			 0);
	assert_int_equal(pthread_rwlock_init(&object, &attributes), 0);
	use(&object);
}

static void the_writer_gets_edeadlk_as_it_has_it(void **state)
{
	const struct timespec soon = in_ms(CLOCK_REALTIME, 50);

	(void)state;
	assert_int_equal(pthread_rwlock_wrlock(&statically), 0);
	assert_int_equal(pthread_rwlock_wrlock(&statically), EDEADLK);
	assert_int_equal(pthread_rwlock_rdlock(&statically), EDEADLK);
	assert_int_equal(pthread_rwlock_timedwrlock(&statically, &soon), EDEADLK);
	assert_int_equal(pthread_rwlock_tryrdlock(&statically), EBUSY);
	assert_int_equal(pthread_rwlock_unlock(&statically), 0);
	assert_int_equal(pthread_rwlock_rdlock(&statically), 0);
	assert_int_equal(pthread_rwlock_unlock(&statically), 0);
}

static void wrong_times_and_clocks_are_refused(void **state)
{
	const struct timespec none = {0, 1000000000}, soon = in_ms(CLOCK_REALTIME, 50);
	int errors[2];

	(void)state;
	assert_int_equal(pthread_rwlock_rdlock(&statically), 0);
	assert_int_equal(pthread_rwlock_timedwrlock(&statically, &none), EINVAL);
	errors[0] = pthread_rwlock_clockrdlock(&statically, CLOCK_PROCESS_CPUTIME_ID, &soon);
	errors[1] = pthread_rwlock_clockwrlock(&statically, CLOCK_PROCESS_CPUTIME_ID, &soon);
	assert_int_equal(errors[0], EINVAL);
	assert_int_equal(errors[1], EINVAL);
	assert_int_equal(pthread_rwlock_unlock(&statically), 0);
}

/* ---- fork ---- */

static atomic_int waiting;

static void *read_it(void *argument)
{
	atomic_fetch_add(&waiting, 1);
	pthread_rwlock_rdlock(lock);
	pthread_rwlock_unlock(lock);
	return argument;
}

static void *write_it(void *argument)
{
	atomic_fetch_add(&waiting, 1);
	pthread_rwlock_wrlock(lock);
	pthread_rwlock_unlock(lock);
	return argument;
}

static atomic_int scribbled;

/* Overwrites the stack that a waiter of the parent has there. */
static void *scribble(void *argument)
{
	volatile char here[100000];

	memset((char *)here, 0x5a, sizeof(here));
	atomic_fetch_add(&scribbled, here[500] == 0x5a);
	pause();
	return argument;
}

/* By the only thread of a child. */
static void use_what_it_has(bool shared_by_two)
{
	limit_to(30);
	for (int i = 0; i < 4; i++)
		start(scribble, NULL);
	for (int i = 0; i < 10000 && atomic_load(&scribbled) < 4; i++)
		nap(1);
	if (pthread_rwlock_trywrlock(lock) != EBUSY)
		_exit(1);
	pthread_rwlock_unlock(lock);
	if (shared_by_two)
		pthread_rwlock_unlock(lock);
	if (pthread_rwlock_trywrlock(lock) != 0)
		_exit(2);
	pthread_t reader = start(read_it, NULL), writer = start(write_it, NULL);
	nap(20);
	pthread_rwlock_unlock(lock);
	pthread_join(reader, NULL);
	pthread_join(writer, NULL);
	_exit(0);
}

static int children_exit(void *(*waits)(void *), int (*have)(pthread_rwlock_t *), bool twice)
{
	pthread_rwlock_t object = PTHREAD_RWLOCK_INITIALIZER;
	pthread_t threads[4];
	int status;

	lock = &object;
	atomic_store(&waiting, 0);
	have(lock);
	if (twice)
		have(lock);
	for (int i = 0; i < 4; i++)
		threads[i] = start(waits, NULL);
	assert_true(becomes(&waiting, 4));
	nap(20);
	pid_t child = fork();
	if (child == 0)
		use_what_it_has(twice);
	pthread_rwlock_unlock(lock);
	if (twice)
		pthread_rwlock_unlock(lock);
	for (int i = 0; i < 4; i++)
		result_of(threads[i]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/*
 * pf does not support a thread that read-locks twice.  The C library's child waits for a thread
 * that waited in the parent.
 */
static void the_child_of_a_fork_unlocks_what_its_thread_had_locked(void **state)
{
	const char *wanted = getenv("TEK_SYNC");

	(void)state;
	if (!wanted || !strstr(wanted, "rwlock=")) {
		print_message("# the C library's do not promise that\n");
		skip();
	}
	assert_int_equal(children_exit(read_it, pthread_rwlock_wrlock, false), 0);
	assert_int_equal(children_exit(write_it, pthread_rwlock_wrlock, false), 0);
	assert_int_equal(children_exit(write_it, pthread_rwlock_rdlock, false), 0);
	if (strstr(wanted, "rwlock=park"))
		assert_int_equal(children_exit(write_it, pthread_rwlock_rdlock, true), 0);
}

static void *write_lock_and_end(void *argument)
{
	pthread_rwlock_wrlock(lock);
	return argument;
}

static void one_whose_writer_has_ended_is_no_other_threads(void **state)
{
	pthread_rwlock_t object = PTHREAD_RWLOCK_INITIALIZER;

	(void)state;
	if (on_user_level() && !(getenv("TEK_SYNC") && strstr(getenv("TEK_SYNC"), "rwlock="))) {
		print_message("# these locks are those of libtek-uthread.so\n");
		skip();
	}
	lock = &object;
	result_of(start(write_lock_and_end, NULL));
	/* It has the stack of the first. */
	expect_of_other_kinds(EBUSY, ETIMEDOUT, EBUSY, ETIMEDOUT);
}

/* ---- of several processes ---- */

struct shared {
	pthread_rwlock_t lock;
	pthread_barrier_t barrier;
	atomic_int in;
};

static void those_of_several_processes_work(void **state)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_rwlockattr_t attributes;
	pthread_barrierattr_t barrier_attributes;
	int status;

	(void)state;
	assert_true(shared != MAP_FAILED);
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	assert_int_equal(pthread_rwlock_init(&shared->lock, &attributes), 0);
	pthread_barrierattr_init(&barrier_attributes);
	pthread_barrierattr_setpshared(&barrier_attributes, PTHREAD_PROCESS_SHARED);
	assert_int_equal(pthread_barrier_init(&shared->barrier, &barrier_attributes, 2), 0);
	assert_int_equal(pthread_rwlock_wrlock(&shared->lock), 0);
	pid_t child = fork();
	if (child == 0) {
		limit_to(30);
		pthread_barrier_wait(&shared->barrier);
		pthread_rwlock_rdlock(&shared->lock);
		_exit(atomic_load(&shared->in) == 1 ? 0 : 1);
	}
	pthread_barrier_wait(&shared->barrier);
	atomic_store(&shared->in, 1);
	assert_int_equal(pthread_rwlock_unlock(&shared->lock), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	munmap(shared, sizeof(*shared));
}

/* ---- barriers ---- */

enum { THREADS = 3, ROUNDS = 20 };

static pthread_barrier_t barrier;
static atomic_int arrived[ROUNDS], serial, wrong;

static void *meet(void *argument)
{
	(void)argument;
	for (int i = 0; i < ROUNDS; i++) {
		atomic_fetch_add(&arrived[i], 1);
		const int result = pthread_barrier_wait(&barrier);
		if (result == PTHREAD_BARRIER_SERIAL_THREAD)
			atomic_fetch_add(&serial, 1);
		else if (result)
			atomic_fetch_add(&wrong, 1);
		if (atomic_load(&arrived[i]) != THREADS)
			atomic_fetch_add(&wrong, 1);
	}
	return NULL;
}

static void all_meet_and_one_gets_the_serial_value(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	assert_int_equal(pthread_barrier_init(&barrier, NULL, 0), EINVAL);
	assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(meet, NULL);
	for (int i = 0; i < THREADS; i++)
		result_of(threads[i]);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(atomic_load(&serial), ROUNDS);
	assert_int_equal(pthread_barrier_destroy(&barrier), 0);
}

static void *meet_and_destroy(void *argument)
{
	pthread_barrier_t *object = argument;

	if (pthread_barrier_wait(object) == PTHREAD_BARRIER_SERIAL_THREAD) {
		if (pthread_barrier_destroy(object))
			atomic_fetch_add(&wrong, 1);
		memset(object, 0xff, sizeof(*object));
		free(object);
	}
	return NULL;
}

static void one_that_comes_out_may_destroy_it(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		pthread_barrier_t *object = malloc(sizeof(*object));
		assert_int_equal(pthread_barrier_init(object, NULL, 2), 0);
		pthread_t other = start(meet_and_destroy, object);
		meet_and_destroy(object);
		result_of(other);
	}
	assert_int_equal(atomic_load(&wrong), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statically_initialised_ones_can_be_used),
		cmocka_unit_test(initialised_ones_can_be_used),
		cmocka_unit_test(the_writer_gets_edeadlk_as_it_has_it),
		cmocka_unit_test(wrong_times_and_clocks_are_refused),
		cmocka_unit_test(the_child_of_a_fork_unlocks_what_its_thread_had_locked),
		cmocka_unit_test(one_whose_writer_has_ended_is_no_other_threads),
		cmocka_unit_test(those_of_several_processes_work),
		cmocka_unit_test(all_meet_and_one_gets_the_serial_value),
		cmocka_unit_test(one_that_comes_out_may_destroy_it),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
