/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that hold a mutex for which a Fast thread waits are lifted, and those that are joined. */
#include "inherit_support.h"

/* A thread that locks a mutex. */
struct locker {
	pthread_t thread;
	pthread_mutex_t *mutex, *first; /* first: locked before `holds` is reached */
	pthread_barrier_t *holds;
	int priority;    /* of SCHED_TEK; NOT_FAST: none */
	long timeout_ms; /* 0: none */
	int error;
	_Atomic pid_t tid;
};

enum { NOT_FAST = 100 };

static void *locker_main(void *argument)
{
	struct locker *locker = argument;

	if (locker->first)
		pthread_mutex_lock(locker->first);
	if (locker->holds)
		pthread_barrier_wait(locker->holds);
	if (locker->priority != NOT_FAST)
		set_tek(pthread_self(), locker->priority);
	locker->tid = own_tid();
	if (locker->timeout_ms) {
		const struct timespec end = in_ms(CLOCK_REALTIME, locker->timeout_ms);
		locker->error = pthread_mutex_timedlock(locker->mutex, &end);
	} else {
		locker->error = pthread_mutex_lock(locker->mutex);
	}
	if (!locker->error || locker->error == EOWNERDEAD)
		pthread_mutex_unlock(locker->mutex);
	if (locker->first)
		pthread_mutex_unlock(locker->first);
	return NULL;
}

static void start(struct locker *locker)
{
	assert_int_equal(pthread_create(&locker->thread, NULL, locker_main, locker), 0);
	await(&locker->tid);
}

static void end(struct locker *locker)
{
	pthread_join(locker->thread, NULL);
}

/* The caller holds the mutex: it is lifted for a Fast thread, and only until it unlocks. */
static void assert_lifted_while_held(pthread_mutex_t *mutex)
{
	struct locker waiter = {.mutex = mutex, .priority = 0};

	start(&waiter);
	assert_true(becomes(own_tid(), true));
	pthread_mutex_unlock(mutex);
	assert_false(is_fast(own_tid()));
	end(&waiter);
	assert_int_equal(waiter.error, 0);
	assert_int_equal(pthread_mutex_trylock(mutex), 0);
	pthread_mutex_unlock(mutex);
}

static void a_holder_is_lifted_until_it_unlocks(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&mutex);
	assert_lifted_while_held(&mutex);
	/* And again: nothing of the first time is left. */
	pthread_mutex_lock(&mutex);
	assert_lifted_while_held(&mutex);
}

static void a_lifted_thread_is_one_step_below_the_waiter(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct locker waiter = {.mutex = &mutex, .priority = -5};

	pthread_mutex_lock(&mutex);
	start(&waiter);
	assert_true(becomes(own_tid(), true));
	assert_int_equal(kernel_rt_priority(own_tid()), kernel_rt_priority(waiter.tid) - 1);
	pthread_mutex_unlock(&mutex);
	end(&waiter);
}

static void of_several_waiters_the_most_critical_one_counts(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct locker less = {.mutex = &mutex, .priority = 10};
	struct locker more = {.mutex = &mutex, .priority = -10};

	pthread_mutex_lock(&mutex);
	start(&less);
	assert_true(becomes(own_tid(), true));
	const int before = kernel_rt_priority(own_tid());
	start(&more);
	for (int ms = 0; ms < PATIENCE_MS && kernel_rt_priority(own_tid()) == before; ms++)
		sleep_ms(1);
	assert_int_equal(kernel_rt_priority(own_tid()), kernel_rt_priority(more.tid) - 1);
	pthread_mutex_unlock(&mutex);
	end(&less);
	end(&more);
	assert_false(is_fast(own_tid()));
}

static void a_thread_for_which_only_ordinary_threads_wait_is_not_lifted(void **state)
{
	(void)state;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct locker waiter = {.mutex = &mutex, .priority = NOT_FAST};

	pthread_mutex_lock(&mutex);
	start(&waiter);
	sleep_ms(20);
	assert_false(is_fast(own_tid()));
	pthread_mutex_unlock(&mutex);
	end(&waiter);
}

static void mutexes_of_every_type_lift_their_holder(void **state)
{
	(void)state;
	need_real_time();
	const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
			     PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (int robust = 0; robust < 2; robust++) {
			pthread_mutexattr_t attr;
			pthread_mutex_t mutex;

			pthread_mutexattr_init(&attr);
			pthread_mutexattr_settype(&attr, types[i]);
			if (robust)
				pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
			pthread_mutex_init(&mutex, &attr);
			pthread_mutexattr_destroy(&attr);
			pthread_mutex_lock(&mutex);
			assert_lifted_while_held(&mutex);
			pthread_mutex_destroy(&mutex);
		}
	}
}

static void a_recursive_mutex_lifts_until_its_last_unlock(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	struct locker waiter = {.mutex = &mutex, .priority = 0};

	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
	start(&waiter);
	assert_true(becomes(own_tid(), true));
	pthread_mutex_unlock(&mutex);
	assert_true(is_fast(own_tid()));
	pthread_mutex_unlock(&mutex);
	assert_false(is_fast(own_tid()));
	end(&waiter);
}

static void each_holder_of_a_chain_is_lifted(void **state)
{
	(void)state;
	need_real_time();
	enum { LINKS = 4 };
	pthread_mutex_t mutexes[LINKS + 1];
	struct locker links[LINKS];
	pthread_barrier_t holds;

	pthread_barrier_init(&holds, NULL, 2);
	for (int i = 0; i <= LINKS; i++)
		pthread_mutex_init(&mutexes[i], NULL);
	for (int i = 0; i < LINKS; i++) {
		links[i] = (struct locker){.first = &mutexes[i],
					   .mutex = &mutexes[i + 1],
					   .holds = &holds,
					   .priority = NOT_FAST};
	}
	/* Link i holds mutex i, and waits for mutex i + 1; this thread holds the last. */
	pthread_mutex_lock(&mutexes[LINKS]);
	for (int i = LINKS - 1; i >= 0; i--) {
		assert_int_equal(pthread_create(&links[i].thread, NULL, locker_main, &links[i]), 0);
		pthread_barrier_wait(&holds);
	}
	struct locker waiter = {.mutex = &mutexes[0], .priority = 0};
	start(&waiter);
	for (int i = 0; i < LINKS; i++)
		assert_true(becomes(links[i].tid, true));
	assert_true(becomes(own_tid(), true));
	pthread_mutex_unlock(&mutexes[LINKS]);
	end(&waiter);
	for (int i = 0; i < LINKS; i++)
		end(&links[i]);
	assert_false(is_fast(own_tid()));
	pthread_barrier_destroy(&holds);
}

static void a_lift_ends_when_the_waiter_gives_up(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct locker waiter = {.mutex = &mutex, .priority = 0, .timeout_ms = 300};

	pthread_mutex_lock(&mutex);
	start(&waiter);
	assert_true(becomes(own_tid(), true));
	assert_true(becomes(own_tid(), false));
	end(&waiter);
	assert_int_equal(waiter.error, ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
}

static void a_deadlock_stays_one_and_lifts_no_thread(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
	pthread_barrier_t holds;
	struct locker fast = {.first = &a, .mutex = &b, .holds = &holds, .priority = 0};
	struct locker other = {
		.first = &b, .mutex = &a, .holds = &holds, .priority = NOT_FAST, .timeout_ms = 500};

	pthread_barrier_init(&holds, NULL, 2);
	assert_int_equal(pthread_create(&fast.thread, NULL, locker_main, &fast), 0);
	start(&other);
	await(&fast.tid);
	/* Until both wait it may be lifted. */
	sleep_ms(100);
	assert_false(is_fast(other.tid));
	end(&other);
	end(&fast);
	assert_int_equal(other.error, ETIMEDOUT);
	assert_int_equal(fast.error, 0);
	pthread_barrier_destroy(&holds);
}

static void *lock_and_end(void *mutex)
{
	pthread_mutex_lock(mutex);
	return NULL;
}

static void a_fast_waiter_learns_that_the_owner_has_died(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex;
	pthread_t owner;
	struct locker waiter = {.mutex = &mutex, .priority = 0};

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &attr);
	assert_int_equal(pthread_create(&owner, NULL, lock_and_end, &mutex), 0);
	start(&waiter);
	pthread_join(owner, NULL);
	end(&waiter);
	/* It may have come before the owner, and then locked it as usual. */
	assert_true(waiter.error == EOWNERDEAD || waiter.error == 0);
	pthread_mutex_destroy(&mutex);
	pthread_mutexattr_destroy(&attr);
}

/* It sleeps: a lifted thread that spins uses up its budget, and is not lifted for a while. */
static void *stay_until_ended(void *argument)
{
	_Atomic int *may_end = argument;

	while (!*may_end)
		sleep_ms(1);
	return NULL;
}

static void *join_as_fast(void *argument)
{
	set_tek(pthread_self(), 0);
	assert_int_equal(pthread_join(*(pthread_t *)argument, NULL), 0);
	return NULL;
}

static _Atomic pid_t joined_tid;

static void *report_tid_and_stay(void *argument)
{
	joined_tid = own_tid();
	return stay_until_ended(argument);
}

static void a_thread_is_lifted_while_a_fast_one_joins_it(void **state)
{
	(void)state;
	need_real_time();
	_Atomic int may_end = 0;
	pthread_t joined, joiner;

	joined_tid = 0;
	assert_int_equal(pthread_create(&joined, NULL, report_tid_and_stay, &may_end), 0);
	await(&joined_tid);
	assert_false(is_fast(joined_tid));
	assert_int_equal(pthread_create(&joiner, NULL, join_as_fast, &joined), 0);
	assert_true(becomes(joined_tid, true));
	may_end = 1;
	pthread_join(joiner, NULL);
}

static void the_child_of_a_lifted_thread_is_not_lifted(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct locker waiter = {.mutex = &mutex, .priority = 0};

	pthread_mutex_lock(&mutex);
	start(&waiter);
	assert_true(becomes(own_tid(), true));
	pid_t pid = fork();
	if (pid == 0) {
		/* It holds a copy of the mutex, which no other thread waits for. */
		const bool was_fast = is_fast(own_tid());
		_exit(pthread_mutex_unlock(&mutex) != 0 || was_fast || is_fast(own_tid()));
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pthread_mutex_unlock(&mutex);
	end(&waiter);
}

/* A Fast thread waits for such a mutex, and its holder is not lifted by TEK. */
static void assert_not_lifted(const pthread_mutexattr_t *attr)
{
	pthread_mutex_t mutex;
	struct locker waiter = {.mutex = &mutex, .priority = 0};

	pthread_mutex_init(&mutex, attr);
	pthread_mutex_lock(&mutex);
	start(&waiter);
	sleep_ms(20);
	/* The kernel's inheritance does not show in the policy. */
	assert_false(is_fast(own_tid()));
	pthread_mutex_unlock(&mutex);
	end(&waiter);
	pthread_mutex_destroy(&mutex);
}

static void mutexes_of_the_kernel_and_of_several_processes_lift_no_thread(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	assert_not_lifted(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_NONE);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	assert_not_lifted(&attr);
	pthread_mutexattr_destroy(&attr);
}

/* Many Fast threads wait, and the holder still gets a CPU. */
static void many_waiters_do_not_hold_up_the_holder(void **state)
{
	(void)state;
	need_real_time();
	enum { WAITERS = 100 };
	static struct locker waiters[WAITERS];
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	need_threads(WAITERS);
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < WAITERS; i++) {
		waiters[i] = (struct locker){.mutex = &mutex, .priority = 0};
		start(&waiters[i]);
	}
	assert_true(becomes(own_tid(), true));
	sleep_ms(100);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < WAITERS; i++)
		end(&waiters[i]);
	assert_false(is_fast(own_tid()));
}

static void a_lifted_thread_that_uses_up_its_budget_is_sent_back(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct locker waiter = {.mutex = &mutex, .priority = 0};

	assert_int_equal(tek_set_budget(20000000, 100000000), 0);
	pthread_mutex_lock(&mutex);
	start(&waiter);
	assert_true(becomes(own_tid(), true));
	bool was_sent_back = false;
	const time_t end_s = time(NULL) + PATIENCE_MS / 1000;
	while (!was_sent_back && time(NULL) < end_s)
		was_sent_back = !is_fast(own_tid());
	assert_true(was_sent_back);
	pthread_mutex_unlock(&mutex);
	end(&waiter);
	assert_int_equal(tek_set_budget(800000000, 1000000000), 0);
}

/* Locks and unlocks at random, and sometimes gives up. */
struct crowd {
	pthread_mutex_t mutexes[3];
	unsigned long inside[3];
	_Atomic unsigned long done;
	_Atomic int errors;
};

static void *member_of_crowd(void *argument)
{
	struct crowd *crowd = argument;
	unsigned int seed = (unsigned int)own_tid();

	if (seed % 3 == 0)
		set_tek(pthread_self(), (int)(seed % 5));
	for (int i = 0; i < 400; i++) {
		int which = rand_r(&seed) % 3;
		const struct timespec soon = in_ms(CLOCK_REALTIME, rand_r(&seed) % 3);
		int error = rand_r(&seed) % 2
				    ? pthread_mutex_lock(&crowd->mutexes[which])
				    : pthread_mutex_timedlock(&crowd->mutexes[which], &soon);
		if (error == ETIMEDOUT)
			continue;
		crowd->errors += error != 0 || crowd->inside[which]++ != 0;
		if (rand_r(&seed) % 4 == 0)
			sched_yield();
		crowd->errors += --crowd->inside[which] != 0;
		pthread_mutex_unlock(&crowd->mutexes[which]);
		crowd->done++;
	}
	set_other(pthread_self());
	crowd->errors += is_fast(own_tid());
	return NULL;
}

static void in_a_crowd_one_thread_at_a_time_is_inside_and_no_lift_is_left(void **state)
{
	(void)state;
	need_real_time();
	enum { THREADS = 12 };
	struct crowd crowd = {.done = 0};
	pthread_t threads[THREADS];

	for (int i = 0; i < 3; i++)
		pthread_mutex_init(&crowd.mutexes[i], NULL);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, member_of_crowd, &crowd), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.errors, 0);
	assert_true(crowd.done > 0);
	assert_false(is_fast(own_tid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_holder_is_lifted_until_it_unlocks),
		cmocka_unit_test(a_lifted_thread_is_one_step_below_the_waiter),
		cmocka_unit_test(of_several_waiters_the_most_critical_one_counts),
		cmocka_unit_test(a_thread_for_which_only_ordinary_threads_wait_is_not_lifted),
		cmocka_unit_test(mutexes_of_every_type_lift_their_holder),
		cmocka_unit_test(a_recursive_mutex_lifts_until_its_last_unlock),
		cmocka_unit_test(each_holder_of_a_chain_is_lifted),
		cmocka_unit_test(a_lift_ends_when_the_waiter_gives_up),
		cmocka_unit_test(a_deadlock_stays_one_and_lifts_no_thread),
		cmocka_unit_test(a_fast_waiter_learns_that_the_owner_has_died),
		cmocka_unit_test(a_thread_is_lifted_while_a_fast_one_joins_it),
		cmocka_unit_test(the_child_of_a_lifted_thread_is_not_lifted),
		cmocka_unit_test(mutexes_of_the_kernel_and_of_several_processes_lift_no_thread),
		cmocka_unit_test(many_waiters_do_not_hold_up_the_holder),
		cmocka_unit_test(a_lifted_thread_that_uses_up_its_budget_is_sent_back),
		cmocka_unit_test(in_a_crowd_one_thread_at_a_time_is_inside_and_no_lift_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
