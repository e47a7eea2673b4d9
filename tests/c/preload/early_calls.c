/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library whose allocator calls many functions at its first allocation, as jemalloc does.  Its
 * constructor runs before those of TEK's libraries, so these functions are called before TEK's
 * initialisation is complete.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);

__attribute__((visibility("default"))) int early_calls_made;

static void *return_it(void *argument)
{
	return argument;
}

static void by_objects(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_key_t key;

	early_calls_made += pthread_mutex_lock(&mutex) == 0;
	early_calls_made += pthread_cond_signal(&cond) == 0;
	early_calls_made += pthread_mutex_unlock(&mutex) == 0;
	early_calls_made += pthread_rwlock_wrlock(&lock) == 0;
	early_calls_made += pthread_rwlock_unlock(&lock) == 0;
	early_calls_made += pthread_key_create(&key, NULL) == 0;
	early_calls_made += pthread_key_delete(key) == 0;
}

static void by_scheduling(void)
{
	struct sched_param param;
	char name[16] = "";
	cpu_set_t cpus;
	int policy;

	early_calls_made += sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
	early_calls_made += sched_setaffinity(0, sizeof(cpus), &cpus) == 0;
	early_calls_made += pthread_getaffinity_np(pthread_self(), sizeof(cpus), &cpus) == 0;
	early_calls_made += pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus) == 0;
	early_calls_made += sched_getscheduler(0) >= 0;
	early_calls_made += sched_getparam(0, &param) == 0;
	early_calls_made += sched_setparam(0, &param) == 0;
	early_calls_made += pthread_getschedparam(pthread_self(), &policy, &param) == 0;
	early_calls_made += pthread_setschedparam(pthread_self(), policy, &param) == 0;
	early_calls_made += setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)) == 0;
	early_calls_made += nice(0) != 100;
	early_calls_made += sched_get_priority_max(SCHED_FIFO) == 99;
	early_calls_made += prctl(PR_GET_NAME, name) == 0;
	early_calls_made += pthread_setname_np(pthread_self(), name) == 0;
}

static void by_libraries(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_NONE};
	struct sigaction action;
	sigset_t set;
	timer_t timer;
	pthread_t thread;

	early_calls_made += sigaction(SIGUSR1, NULL, &action) == 0;
	early_calls_made += pthread_sigmask(SIG_BLOCK, NULL, &set) == 0;
	early_calls_made += mlock(&set, sizeof(set)) == 0;
	early_calls_made += timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
	early_calls_made += timer_delete(timer) == 0;
	early_calls_made += pthread_create(&thread, NULL, return_it, NULL) == 0;
	early_calls_made += pthread_join(thread, NULL) == 0;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
	static atomic_flag called = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&called)) {
		by_objects();
		by_scheduling();
		by_libraries();
	}
	return __libc_malloc(bytes);
}

/* Calls libtek.so, as the constructor of libcap does. */
__attribute__((constructor)) static void constructor(void)
{
	prctl(PR_CAPBSET_READ, 1);
}
