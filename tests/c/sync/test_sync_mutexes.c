/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mutexes and spin locks of an ordinary program. */
#include "patience.h"
#include "sync_waiting.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* The C library's mutex shows in its first word that it is locked. */
static void mutexes_are_whose_they_are_to_be(void **state)
{
	pthread_mutex_t object = PTHREAD_MUTEX_INITIALIZER;
	const char *wanted = getenv("TEK_SYNC");
	const bool ours = wanted != NULL;

	(void)state;
	pthread_mutex_lock(&object);
	/* An engine's own does, too, where `futex` stands for it. */
	if (!ours || !on_user_level() || !strstr(wanted, "futex"))
		assert_int_equal(object.__data.__lock == 0, ours);
	pthread_mutex_unlock(&object);
}

static pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER;

static void lock_early(void)
{
	pthread_mutex_lock(&early);
}

/* Before any constructor. */
__attribute__((used, section(".preinit_array"))) static void (*const early_lock)(void) = lock_early;

static void a_mutex_locked_before_any_constructor_is_locked(void **state)
{
	(void)state;
	assert_int_equal(tried_by_another(&early), EBUSY);
	assert_int_equal(pthread_mutex_unlock(&early), 0);
	assert_int_equal(tried_by_another(&early), 0);
}

static void *wait_until(void *object)
{
	const struct timespec past = {1, 0}, real = in_ms(CLOCK_REALTIME, 5),
			      monotonic = in_ms(CLOCK_MONOTONIC, 5), none = {1, -1};
	int *result = malloc(4 * sizeof(int));

	result[0] = pthread_mutex_timedlock(object, &past);
	result[1] = pthread_mutex_timedlock(object, &real);
	result[2] = pthread_mutex_clocklock(object, CLOCK_MONOTONIC, &monotonic);
	result[3] = pthread_mutex_timedlock(object, &none);
	return result;
}

static void a_wait_for_a_mutex_ends_at_its_time(void **state)
{
	(void)state;
	pthread_mutex_lock(&mutex);
	int *result = result_of(start(wait_until, &mutex));
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 3; i++)
		assert_int_equal(result[i], ETIMEDOUT);
	assert_int_equal(result[3], EINVAL);
	free(result);
	assert_int_equal(tried_by_another(&mutex), 0);
}

static void *unlock_it(void *object)
{
	return (void *)(intptr_t)pthread_mutex_unlock(object);
}

static void check_recursive(pthread_mutex_t *object)
{
	assert_int_equal(pthread_mutex_lock(object), 0);
	assert_int_equal(pthread_mutex_lock(object), 0);
	assert_int_equal(pthread_mutex_trylock(object), 0);
	assert_int_equal((int)(intptr_t)result_of(start(unlock_it, object)), EPERM);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tried_by_another(object), EBUSY);
		assert_int_equal(pthread_mutex_unlock(object), 0);
	}
	assert_int_equal(tried_by_another(object), 0);
	assert_int_equal(pthread_mutex_unlock(object), EPERM);
}

static void check_errorcheck(pthread_mutex_t *object)
{
	assert_int_equal(pthread_mutex_lock(object), 0);
	assert_int_equal(pthread_mutex_lock(object), EDEADLK);
	/* The C library returns EDEADLK for mutexes that inherit priorities. */
	assert_int_not_equal(pthread_mutex_trylock(object), 0);
	assert_int_equal((int)(intptr_t)result_of(start(unlock_it, object)), EPERM);
	assert_int_equal(pthread_mutex_unlock(object), 0);
	assert_int_equal(pthread_mutex_unlock(object), EPERM);
}

static void each_type_keeps_its_promises(void **state)
{
	static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pthread_mutexattr_t attributes;
	pthread_mutex_t made;

	(void)state;
	check_recursive(&recursive);
	check_errorcheck(&errorcheck);
	pthread_mutexattr_init(&attributes);
	for (int protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++) {
		pthread_mutexattr_setprotocol(&attributes, protocol);
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
		assert_int_equal(pthread_mutex_init(&made, &attributes), 0);
		check_recursive(&made);
		assert_int_equal(pthread_mutex_destroy(&made), 0);
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
		assert_int_equal(pthread_mutex_init(&made, &attributes), 0);
		check_errorcheck(&made);
		pthread_mutex_lock(&made);
		assert_int_equal(pthread_mutex_destroy(&made), EBUSY);
		pthread_mutex_unlock(&made);
		assert_int_equal(pthread_mutex_destroy(&made), 0);
	}
}

/* Nothing is promised, but Firefox reads it, and aborts if it is not the C library's ID. */
static void one_with_an_owner_has_its_id_where_the_c_library_has_it(void **state)
{
	pthread_mutex_t made[] = {PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
				  PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP};

	(void)state;
	if (sizeof(void *) != 8 || on_user_level()) {
		print_message("# kernel threads and pointers of 8 bytes only\n");
		skip();
	}
	for (int i = 0; i < 4; i++) {
		pthread_mutex_t *object = &made[i % 2];

		assert_int_equal(pthread_mutex_lock(object), 0);
		assert_int_equal(object->__data.__owner, getpid());
		assert_int_equal(tried_by_another(object), EBUSY);
		assert_int_equal(pthread_mutex_lock(object), i % 2 ? EDEADLK : 0);
		assert_int_equal(object->__data.__owner, getpid());
		assert_int_equal(pthread_mutex_unlock(object), 0);
		if (i % 2 == 0)
			assert_int_equal(pthread_mutex_unlock(object), 0);
		assert_int_equal(object->__data.__owner, 0);
	}
}

/* As the C library has it, though nothing is promised. */
static void one_that_is_unlocked_once_too_often_is_free(void **state)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_mutex_unlock(&mutex), 0);
		assert_int_equal(pthread_mutex_trylock(&mutex), 0);
		assert_int_equal(pthread_mutex_trylock(&mutex), EBUSY);
		assert_int_equal(pthread_mutex_unlock(&mutex), 0);
		assert_int_equal(pthread_mutex_unlock(&mutex), 0);
		assert_int_equal(pthread_mutex_lock(&mutex), 0);
		assert_int_equal(pthread_mutex_unlock(&mutex), 0);
	}
}

static void *lock_and_end(void *object)
{
	return (void *)(intptr_t)pthread_mutex_lock(object);
}

static void robust_mutexes_and_those_of_several_processes_are_what_they_were(void **state)
{
	pthread_mutex_t *object = mmap(NULL, sizeof(*object), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;
	int status;

	(void)state;
	if (getenv("TEK_EMULATED")) {
		print_message(
			"# qemu-user does not tell others that the owner of a mutex has ended\n");
		skip();
	}
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	assert_int_equal(pthread_mutex_init(object, &attributes), 0);
	assert_null(result_of(start(lock_and_end, object)));
	assert_int_equal(pthread_mutex_lock(object), EOWNERDEAD);
	assert_int_equal(pthread_mutex_consistent(object), 0);
	assert_int_equal(pthread_mutex_unlock(object), 0);

	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	assert_int_equal(pthread_mutex_init(object, &attributes), 0);
	pid_t child = fork();
	if (child == 0)
		_exit(pthread_mutex_lock(object));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(pthread_mutex_lock(object), EOWNERDEAD);
	munmap(object, sizeof(*object));
}

/* Those know an owner by its handle, which the next thread may have. */
#define NOT_THE_ENGINES_OWN() \
	do { \
		const char *wanted = getenv("TEK_SYNC"); \
		if (on_user_level() && (!wanted || strstr(wanted, "futex"))) { \
			print_message("# these mutexes are those of libtek-uthread.so\n"); \
			skip(); \
		} \
	} while (0)

static void *wait_for_it(void *object)
{
	const struct timespec soon = in_ms(CLOCK_REALTIME, 20);

	return (void *)(intptr_t)pthread_mutex_timedlock(object, &soon);
}

static void one_whose_owner_has_ended_is_locked_for_each_thread_after_it(void **state)
{
	static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				    PTHREAD_MUTEX_ERRORCHECK};
	pthread_mutexattr_t attributes;
	pthread_mutex_t made;

	(void)state;
	NOT_THE_ENGINES_OWN();
	pthread_mutexattr_init(&attributes);
	for (int i = 0; i < 3; i++) {
		pthread_mutexattr_settype(&attributes, types[i]);
		assert_int_equal(pthread_mutex_init(&made, &attributes), 0);
		assert_null(result_of(start(lock_and_end, &made)));
		/* They have its stack, one after the other. */
		assert_int_equal(tried_by_another(&made), EBUSY);
		assert_int_equal((int)(intptr_t)result_of(start(wait_for_it, &made)), ETIMEDOUT);
	}
}

static void a_thread_that_waits_until_a_time_for_its_own_normal_mutex_waits_until_then(void **state)
{
	const struct timespec soon = in_ms(CLOCK_REALTIME, 20);
	struct timespec now;

	(void)state;
	pthread_mutex_lock(&mutex);
	assert_int_equal(pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
	clock_gettime(CLOCK_REALTIME, &now);
	assert_true(now.tv_sec > soon.tv_sec ||
		    (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
	pthread_mutex_unlock(&mutex);
	assert_int_equal(tried_by_another(&mutex), 0);
}

static void a_thread_may_have_five_thousand(void **state)
{
	enum { MANY = 5000 };
	pthread_mutex_t *many = calloc(MANY, sizeof(*many));

	(void)state;
	assert_non_null(many);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(pthread_mutex_lock(&many[i]), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(pthread_mutex_unlock(&many[i]), 0);
	free(many);
}

static pthread_spinlock_t spin;
static int count;

static void *count_with_spin_lock(void *argument)
{
	for (int i = 0; i < 1000; i++) {
		pthread_spin_lock(&spin);
		count++;
		pthread_spin_unlock(&spin);
	}
	return argument;
}

static void a_spin_lock_keeps_other_threads_out(void **state)
{
	pthread_t threads[3];

	(void)state;
	count = 0;
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	assert_int_equal(pthread_spin_trylock(&spin), 0);
	assert_int_equal(pthread_spin_trylock(&spin), EBUSY);
	pthread_spin_unlock(&spin);
	for (int i = 0; i < 3; i++)
		threads[i] = start(count_with_spin_lock, NULL);
	for (int i = 0; i < 3; i++)
		result_of(threads[i]);
	assert_int_equal(count, 3000);
	assert_int_equal(pthread_spin_destroy(&spin), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutexes_are_whose_they_are_to_be),
		cmocka_unit_test(a_mutex_locked_before_any_constructor_is_locked),
		cmocka_unit_test(a_wait_for_a_mutex_ends_at_its_time),
		cmocka_unit_test(each_type_keeps_its_promises),
		cmocka_unit_test(one_with_an_owner_has_its_id_where_the_c_library_has_it),
		cmocka_unit_test(one_that_is_unlocked_once_too_often_is_free),
		cmocka_unit_test(robust_mutexes_and_those_of_several_processes_are_what_they_were),
		cmocka_unit_test(one_whose_owner_has_ended_is_locked_for_each_thread_after_it),
		cmocka_unit_test(
			a_thread_that_waits_until_a_time_for_its_own_normal_mutex_waits_until_then),
		cmocka_unit_test(a_thread_may_have_five_thousand),
		cmocka_unit_test(a_spin_lock_keeps_other_threads_out),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
