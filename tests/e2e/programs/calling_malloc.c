/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with an allocator that calls many functions while it holds its lock, as real ones do:
 * it names its memory, locks it, counts the CPUs, reads a file of /proc.  The constructor of a
 * library makes the first call, before the constructors of preloaded libraries.  None of these
 * functions allocates.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int depth;
static int reentered, calls;

static void child(void) {}

/* At the first allocation. */
static void call_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_key_t key;
	cpu_set_t cpus;

	pthread_once(&once, child);
	pthread_atfork(NULL, NULL, child);
	if (pthread_key_create(&key, NULL) == 0)
		pthread_setspecific(key, &lock);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		sched_setaffinity(0, sizeof(cpus), &cpus);
	sched_get_priority_max(SCHED_FIFO);
	sysconf(_SC_NPROCESSORS_ONLN);
}

static void call_remaining(void)
{
	static char page[4096] __attribute__((aligned(4096)));
	static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	const struct timespec moment = {.tv_nsec = 1};
	struct sched_param param;
	struct sigaction action;
	struct timespec now;
	struct stat status;
	cpu_set_t cpus;
	sigset_t mask;
	int policy;

	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, sizeof(page), "heap");
	mlock(page, sizeof(page));
	sched_getaffinity(0, sizeof(cpus), &cpus);
	pthread_getaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	sched_getscheduler(0);
	pthread_getschedparam(pthread_self(), &policy, &param);
	sigaction(SIGSEGV, NULL, &action);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	nanosleep(&moment, NULL);
	sched_yield();
	gettid();
	clock_gettime(CLOCK_MONOTONIC, &now);
	int file = open("/proc/self/stat", O_RDONLY);
	fstat(file, &status);
	if (read(file, page, sizeof(page)) > 0)
		calls++;
	close(file);
}

void *malloc(size_t bytes)
{
	if (depth) {
		__atomic_fetch_add(&reentered, 1, __ATOMIC_RELAXED);
		return __libc_malloc(bytes);
	}
	pthread_mutex_lock(&lock);
	if (!depth++ && !calls)
		call_once();
	call_remaining();
	void *block = __libc_malloc(bytes);
	depth--;
	pthread_mutex_unlock(&lock);
	return block;
}

/* pthread_create(3) calls it. */
void *calloc(size_t count, size_t size)
{
	void *block = malloc(count * size);
	return block ? memset(block, 0, count * size) : NULL;
}

static void *work(void *unused)
{
	for (int i = 0; i < 20; i++)
		free(malloc(100));
	return unused;
}

int main(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, work, NULL) != 0)
			return 2;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	if (reentered || calls < 60) {
		fprintf(stderr, "malloc was re-entered %d times, and called %d times\n", reentered,
			calls);
		return 3;
	}
	puts("all right");
	return 0;
}
