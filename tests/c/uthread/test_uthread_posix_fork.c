/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fork() while other threads use objects that threads wait for: the child can use all of them. */
#include "patience.h"
#include "uthread_posix.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FORKS = 200, PAIRS = 2, MASKS = 200 };

/* Each pair of threads is busy in one kind of object, where it has to wait, all the time. */
struct objects {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	pthread_rwlock_t rwlock;
	sem_t empty, full;
	pthread_barrier_t barrier;
	int iteration;
};

static struct objects objects[PAIRS];
static atomic_int stop;

static void *alternate(void *argument)
{
	struct objects *mine = &objects[(uintptr_t)argument / 2];
	const int me = (int)((uintptr_t)argument % 2);

	while (!atomic_load(&stop)) {
		pthread_mutex_lock(&mine->mutex);
		while (mine->iteration != me && !atomic_load(&stop))
			pthread_cond_wait(&mine->cond, &mine->mutex);
		mine->iteration = !me;
		pthread_cond_broadcast(&mine->cond);
		pthread_mutex_unlock(&mine->mutex);
	}
	return NULL;
}

static void *pass_units(void *argument)
{
	struct objects *mine = &objects[(uintptr_t)argument / 2];
	const bool first = (uintptr_t)argument % 2 == 0;

	while (!atomic_load(&stop)) {
		sem_wait(first ? &mine->empty : &mine->full);
		sem_post(first ? &mine->full : &mine->empty);
	}
	sem_post(first ? &mine->full : &mine->empty);
	return NULL;
}

static void *read_and_write(void *argument)
{
	struct objects *mine = &objects[(uintptr_t)argument / 2];

	while (!atomic_load(&stop)) {
		if (pthread_rwlock_wrlock(&mine->rwlock) == 0) {
			sched_yield();
			pthread_rwlock_unlock(&mine->rwlock);
		}
		if (pthread_rwlock_rdlock(&mine->rwlock) == 0)
			pthread_rwlock_unlock(&mine->rwlock);
	}
	return NULL;
}

/* Its alarm kills a child that waits for an object without a holder. */
static int use_all_of_them(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < PAIRS; i++) {
		struct objects *mine = &objects[i];
		struct timespec soon = in_us(CLOCK_REALTIME, 100);
		int error;

		pthread_cond_signal(&mine->cond);
		pthread_cond_broadcast(&mine->cond);
		pthread_mutex_lock(&mutex);
		error = pthread_cond_timedwait(&mine->cond, &mutex, &soon);
		pthread_mutex_unlock(&mutex);
		if (error != ETIMEDOUT)
			return 1;
		sem_post(&mine->empty);
		if (sem_trywait(&mine->empty) != 0)
			return 2;
		sem_post(&mine->full);
		if (sem_trywait(&mine->full) != 0)
			return 3;
		/* A thread that is missing here may have had these: then they stay locked. */
		if (pthread_mutex_timedlock(&mine->mutex, &soon) == 0 &&
		    pthread_mutex_unlock(&mine->mutex) != 0)
			return 4;
		if (pthread_rwlock_timedwrlock(&mine->rwlock, &soon) == 0 &&
		    pthread_rwlock_unlock(&mine->rwlock) != 0)
			return 5;
	}
	return 0;
}

static void fork_often(void)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		int status;

		assert_int_not_equal(child, -1);
		if (child == 0) {
			limit_to(30);
			_exit(use_all_of_them());
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}

static void a_child_finds_nothing_half_done(void **state)
{
	static void *(*const routines[])(void *) = {alternate, pass_units, read_and_write};
	pthread_t threads[3][2 * PAIRS];

	(void)state;
	if (!on_user_level()) {
		print_message("# not promised by this C library\n");
		skip();
	}
	for (int i = 0; i < PAIRS; i++) {
		pthread_mutex_init(&objects[i].mutex, NULL);
		pthread_cond_init(&objects[i].cond, NULL);
		pthread_rwlock_init(&objects[i].rwlock, NULL);
		sem_init(&objects[i].empty, 0, 1);
		sem_init(&objects[i].full, 0, 0);
	}
	for (int i = 0; i < 3; i++) {
		for (uintptr_t j = 0; j < 2 * PAIRS; j++)
			threads[i][j] = start(routines[i], (void *)j);
	}
	fork_often();
	atomic_store(&stop, 1);
	for (int i = 0; i < PAIRS; i++) {
		pthread_mutex_lock(&objects[i].mutex);
		pthread_cond_broadcast(&objects[i].cond);
		pthread_mutex_unlock(&objects[i].mutex);
	}
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 2 * PAIRS; j++)
			result_of(threads[i][j]);
	}
}

/* ---- objects of one process in memory of two ---- */

struct wrong {
	pthread_cond_t cond;
	atomic_int waiting, woken;
	pthread_mutex_t mutex[2]; /* of each process its own */
};

static struct wrong *wrong;

static void *wait_in_child(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&wrong->mutex[1]);
	atomic_fetch_add(&wrong->waiting, 1);
	while (!atomic_load(&wrong->woken))
		pthread_cond_wait(&wrong->cond, &wrong->mutex[1]);
	pthread_mutex_unlock(&wrong->mutex[1]);
	return NULL;
}

static void wait_and_wake_in_child(const atomic_int *parent_is_done)
{
	pthread_t threads[3];

	limit_to(30);
	for (int i = 0; i < 3; i++)
		threads[i] = start(wait_in_child, NULL);
	while (!atomic_load(parent_is_done))
		nap(1);
	pthread_mutex_lock(&wrong->mutex[1]);
	atomic_store(&wrong->woken, 1);
	pthread_cond_broadcast(&wrong->cond);
	pthread_mutex_unlock(&wrong->mutex[1]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

/*
 * Not allowed, but it happens: a waiter of another process is unknown here, and its stack is not
 * accessed.
 */
static void a_thread_that_waits_in_another_process_is_not_accessed(void **state)
{
	struct {
		struct wrong wrong;
		atomic_int done;
	} *memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	int status;

	(void)state;
	if (!on_user_level()) {
		print_message("# not promised by this C library\n");
		skip();
	}
	assert_ptr_not_equal(memory, MAP_FAILED);
	wrong = &memory->wrong;
	pid_t child = fork();
	assert_int_not_equal(child, -1);
	if (child == 0)
		wait_and_wake_in_child(&memory->done);
	assert_true(becomes(&wrong->waiting, 3));
	for (int i = 0; i < 100; i++) {
		pthread_cond_signal(&wrong->cond);
		pthread_cond_broadcast(&wrong->cond);
	}
	atomic_store(&memory->done, 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	munmap(memory, sizeof(*memory));
}

/* ---- handlers ---- */

static pthread_mutex_t of_library = PTHREAD_MUTEX_INITIALIZER;

static void lock_library(void)
{
	pthread_mutex_lock(&of_library);
}

static void unlock_library(void)
{
	pthread_mutex_unlock(&of_library);
}

static void register_handlers(void)
{
	pthread_atfork(lock_library, unlock_library, unlock_library);
}

/* Before any constructor: a library that is initialised before ours does it as early. */
__attribute__((used, section(".preinit_array"))) static void (*const register_early)(void) =
	register_handlers;

static void *use_library(void *argument)
{
	(void)argument;
	while (!atomic_load(&stop)) {
		pthread_mutex_lock(&of_library);
		sched_yield();
		pthread_mutex_unlock(&of_library);
	}
	return NULL;
}

static void a_lock_that_threads_wait_for_is_taken_before_a_fork(void **state)
{
	pthread_t threads[4];
	int status;

	(void)state;
	atomic_store(&stop, 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start(use_library, NULL);
	for (int i = 0; i < 100; i++) {
		pid_t child = fork();
		assert_int_not_equal(child, -1);
		if (child == 0) {
			limit_to(30);
			pthread_mutex_lock(&of_library);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 4; i++)
		result_of(threads[i]);
}

static void *fork_and_wait(void *argument)
{
	intptr_t wrong_ends = 0;

	(void)argument;
	for (int i = 0; i < 20; i++) {
		int status = -1;
		pid_t child = fork();
		if (child == 0)
			_exit(3);
		waitpid(child, &status, 0);
		wrong_ends += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
	}
	return (void *)wrong_ends;
}

static void threads_that_fork_at_the_same_time_do_so_one_after_the_other(void **state)
{
	pthread_t threads[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		threads[i] = start(fork_and_wait, NULL);
	for (int i = 0; i < 6; i++)
		assert_null(result_of(threads[i]));
}

static uint64_t kernel_mask(void)
{
	uint64_t mask;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask;
}

/* Each time that it runs it may be on a kernel thread that has forked. */
static void *examine_mask(void *argument)
{
	const uint64_t mask = kernel_mask();

	while (!atomic_load(&stop)) {
		if (kernel_mask() != mask)
			return argument;
		sched_yield();
	}
	return NULL;
}

static void no_thread_has_the_mask_of_the_one_that_forks(void **state)
{
	static char much[64 << 20]; /* so that a fork takes some quanta */
	pthread_t threads[2];

	memset(much, 1, sizeof(much));
	atomic_store(&stop, 0);
	for (int i = 0; i < 2; i++)
		threads[i] = start(examine_mask, state);
	for (int i = 0; i < MASKS; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		assert_int_equal(waitpid(child, NULL, 0), child);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		assert_null(result_of(threads[i]));
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_finds_nothing_half_done),
		cmocka_unit_test(a_thread_that_waits_in_another_process_is_not_accessed),
		cmocka_unit_test(a_lock_that_threads_wait_for_is_taken_before_a_fork),
		cmocka_unit_test(threads_that_fork_at_the_same_time_do_so_one_after_the_other),
		cmocka_unit_test(no_thread_has_the_mask_of_the_one_that_forks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
