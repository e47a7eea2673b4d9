/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libtek-uthread.so with a C library that has another layout of pthread objects: process-shared
 * objects are refused, because the library cannot recognise them.
 */
#include "unfit.h"

#define CHOSEN "TEK_UTHREAD=workers=2"

static char output[4096];

/* Prints the error of making each kind of process-shared object. */
static void try_shared(void)
{
	pthread_condattr_t of_cond;
	pthread_rwlockattr_t of_lock;
	pthread_barrierattr_t of_barrier;
	pthread_cond_t cond;
	pthread_rwlock_t lock;
	pthread_barrier_t barrier;
	sem_t semaphore;

	pthread_condattr_init(&of_cond);
	pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED);
	pthread_rwlockattr_init(&of_lock);
	pthread_rwlockattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
	pthread_barrierattr_init(&of_barrier);
	pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED);
	printf("cond %d rwlock %d barrier %d", pthread_cond_init(&cond, &of_cond),
	       pthread_rwlock_init(&lock, &of_lock),
	       pthread_barrier_init(&barrier, &of_barrier, 1));
	printf(" semaphore %d\n", sem_init(&semaphore, 1, 0) ? errno : 0);
}

static void objects_of_several_processes_that_do_not_fit_cannot_be_made(void **state)
{
	static const char *const objects[] = {"cond", "rwlock", "barrier", "semaphore"};
	char expected[128];

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(use_with(objects[i], CHOSEN, output, sizeof(output)), 0);
		assert_non_null(strstr(output, "objects of several processes are not as any that "
					       "TEK knows: the program cannot make all of them"));
		snprintf(expected, sizeof(expected), "cond %d rwlock %d barrier %d semaphore %d\n",
			 i == 0 ? ENOTSUP : 0, i == 1 ? ENOTSUP : 0, i == 2 ? ENOTSUP : 0,
			 i == 3 ? ENOTSUP : 0);
		assert_non_null(strstr(output, expected));
		/* All else works. */
		assert_non_null(strstr(output, "met 200 times\n"));
	}
}

static void a_program_does_not_start_where_mutexes_do_not_fit(void **state)
{
	(void)state;
	assert_int_equal(use_with("mutex", CHOSEN, output, sizeof(output)), 1);
	assert_non_null(strstr(output, "this C library's mutexes are not as any that TEK knows"));
	assert_null(strstr(output, "met"));
}

static void with_this_c_library_all_fit(void **state)
{
	(void)state;
	assert_int_equal(use_with("", CHOSEN, output, sizeof(output)), 0);
	assert_string_equal(output, "met 200 times\ncond 0 rwlock 0 barrier 0 semaphore 0\n");
}

int main(int count, char **arguments)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_of_several_processes_that_do_not_fit_cannot_be_made),
		cmocka_unit_test(a_program_does_not_start_where_mutexes_do_not_fit),
		cmocka_unit_test(with_this_c_library_all_fit),
	};

	if (count > 1 && strcmp(arguments[1], "use") == 0) {
		use_objects();
		try_shared();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
