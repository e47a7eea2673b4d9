/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The entries of waiting threads in a table: lib/uthread/shown.h. */
#include "uthread_objects.h"

#include "uthread/shown.h"

static tek_uthread_mutex_t mutex;
static tek_uthread_mutex_t cond_mutex;
static tek_uthread_cond_t cond;
static tek_uthread_rwlock_t rwlock;
static tek_uthread_barrier_t barrier;
static tek_uthread_semaphore_t semaphore;
static tek_uthread_once_t once;
static tek_uthread_t joined;
static atomic_bool signalled, stop;

static void *take_mutex(void *argument)
{
	CHECK(tek_uthread_mutex_lock(&mutex) == 0);
	CHECK(tek_uthread_mutex_unlock(&mutex) == 0);
	return argument;
}

static void *await_cond(void *argument)
{
	CHECK(tek_uthread_mutex_lock(&cond_mutex) == 0);
	while (!atomic_load(&signalled))
		CHECK(tek_uthread_cond_wait(&cond, &cond_mutex) == 0);
	CHECK(tek_uthread_mutex_unlock(&cond_mutex) == 0);
	return argument;
}

static void *read_lock(void *argument)
{
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	return argument;
}

static void *pass_barrier(void *argument)
{
	tek_uthread_barrier_wait(&barrier);
	return argument;
}

static void *take_semaphore(void *argument)
{
	CHECK(tek_uthread_semaphore_wait(&semaphore) == 0);
	return argument;
}

static void await_stop(void)
{
	while (!atomic_load(&stop))
		tek_uthread_sleep(1000000);
}

static void *run_once(void *argument)
{
	CHECK(tek_uthread_once(&once, await_stop) == 0);
	return argument;
}

static void *sleep_until_stop(void *argument)
{
	while (!atomic_load(&stop))
		tek_uthread_sleep(2000000);
	return argument;
}

static void *join_it(void *argument)
{
	CHECK(tek_uthread_join(joined, NULL) == 0);
	return argument;
}

static struct waits {
	void *(*routine)(void *);
	const char *word;
	unsigned char what;
	struct tek_side side;
	tek_uthread_t thread;
} all[] = {
	{.routine = take_mutex, .what = TEK_WAITS_MUTEX, .word = "mutex"},
	{.routine = await_cond, .what = TEK_WAITS_COND, .word = "cond"},
	{.routine = read_lock, .what = TEK_WAITS_RWLOCK, .word = "rwlock"},
	{.routine = pass_barrier, .what = TEK_WAITS_BARRIER, .word = "barrier"},
	{.routine = take_semaphore, .what = TEK_WAITS_SEMAPHORE, .word = "semaphore"},
	{.routine = run_once, .what = TEK_WAITS_ONCE, .word = "once"},
	{.routine = join_it, .what = TEK_WAITS_JOIN, .word = "join"},
	{.routine = sleep_until_stop, .what = TEK_WAITS_SLEEP, .word = "sleep"},
};

static void *wait_shown(void *argument)
{
	struct waits *waits = argument;

	tek_ut__here_self()->shown = &waits->side;
	void *result = waits->routine(argument);
	tek_ut__here_self()->shown = NULL;
	return result;
}

static unsigned char shown(const struct waits *waits)
{
	return __atomic_load_n(&waits->side.waits, __ATOMIC_RELAXED);
}

static void wait_for_everything(void)
{
	CHECK(tek_uthread_barrier_init(&barrier, 2) == 0);
	CHECK(tek_uthread_mutex_lock(&mutex) == 0);
	CHECK(tek_uthread_rwlock_wrlock(&rwlock) == 0);
	joined = begin(run_once, NULL);
	WAIT_UNTIL(__atomic_load_n(&once, __ATOMIC_RELAXED) != 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		all[i].thread = begin(wait_shown, &all[i]);
		WAIT_UNTIL(shown(&all[i]) == all[i].what);
		CHECK(strcmp(tek_ut__waits_words[shown(&all[i])], all[i].word) == 0);
	}
	CHECK(tek_uthread_mutex_unlock(&mutex) == 0);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(tek_uthread_semaphore_post(&semaphore) == 0);
	CHECK(tek_uthread_mutex_lock(&cond_mutex) == 0);
	atomic_store(&signalled, true);
	CHECK(tek_uthread_cond_signal(&cond) == 0);
	CHECK(tek_uthread_mutex_unlock(&cond_mutex) == 0);
	tek_uthread_barrier_wait(&barrier);
	atomic_store(&stop, true);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CHECK(end_of(all[i].thread) == &all[i]);
		CHECK(shown(&all[i]) == TEK_WAITS_NO);
	}
}

static void it_shows_what_a_thread_waits_for_while_it_does(void **state)
{
	(void)state;
	in_all_engines(wait_for_everything);
}

static void everything_that_can_be_waited_for_has_a_word_of_its_own(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < TEK_WAITS_WORDS; i++) {
		assert_non_null(tek_ut__waits_words[i]);
		for (unsigned int other = 0; other < i; other++)
			assert_string_not_equal(tek_ut__waits_words[i], tek_ut__waits_words[other]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_shows_what_a_thread_waits_for_while_it_does),
		cmocka_unit_test(everything_that_can_be_waited_for_has_a_word_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
