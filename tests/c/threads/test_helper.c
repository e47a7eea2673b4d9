/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How TEK makes threads of its own in a program whose allocator has a lock. */
#include "support.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

enum { PATIENCE_S = 5 };

static sem_t allocates, done;
static pthread_t maker;
static atomic_bool watched, waited_in_vain;

void *__libc_calloc(size_t count, size_t bytes);

static void wait_for_other(void)
{
	struct timespec end;

	sem_post(&allocates);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	while (sem_timedwait(&done, &end)) {
		if (errno == ETIMEDOUT) {
			waited_in_vain = true;
			return;
		}
	}
}

/* The C library allocates memory of a thread with it. */
void *calloc(size_t count, size_t bytes)
{
	if (watched && pthread_equal(pthread_self(), maker) && atomic_exchange(&watched, false))
		wait_for_other();
	return __libc_calloc(count, bytes);
}

/* Like a thread that holds the allocator's lock while it calls TEK. */
static void *call_tek(void *unused)
{
	enum tek_group group;

	(void)unused;
	while (sem_wait(&allocates))
		;
	tek_thread_get_group(pthread_self(), &group);
	sem_post(&done);
	return NULL;
}

static void the_guard_is_made_without_the_lock(void **state)
{
	pthread_t other;

	(void)state;
	sem_init(&allocates, 0, 0);
	sem_init(&done, 0, 0);
	assert_int_equal(pthread_create(&other, NULL, call_tek, NULL), 0);
	maker = pthread_self();
	watched = true;
	int error = tek_critical_enter();
	if (watched) {
		sem_post(&allocates);
		pthread_join(other, NULL);
		print_message("# this C library allocates a thread without calloc()\n");
		skip();
	}
	pthread_join(other, NULL);
	assert_false(waited_in_vain);
	if (!error)
		assert_int_equal(tek_critical_leave(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_guard_is_made_without_the_lock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
