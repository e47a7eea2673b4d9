/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the C tests share. Each test is one sentence about behaviour. */
#ifndef TEK_TESTS_SUPPORT_H
#define TEK_TESTS_SUPPORT_H

/* cmocka.h wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tek/tek.h>
#include <unistd.h>

#include "tek_abi.h"

/*
 * For a function whose calls have to keep their return addresses: the compiler neither inlines nor
 * clones it.
 */
#if __has_attribute(noclone) /* clang knows no clones */
#define ONE_COPY __attribute__((noinline, noclone))
#else
#define ONE_COPY __attribute__((noinline))
#endif

/* The program may use each number of a descriptor that the system lets it use. */
static inline void raise_limit_of_descriptors(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* AddressSanitizer wants to be the first library; tests/meson.build says why it is not. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

/* Children of our tests make threads. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

/* What the kernel says, past every interposed symbol. */
static inline int kernel_policy(pid_t tid)
{
	return (int)syscall(SYS_sched_getscheduler, tid) & ~SCHED_RESET_ON_FORK;
}

static inline bool kernel_reset_on_fork(pid_t tid)
{
	return syscall(SYS_sched_getscheduler, tid) & SCHED_RESET_ON_FORK;
}

static inline int kernel_rt_priority(pid_t tid)
{
	struct sched_param param;
	syscall(SYS_sched_getparam, tid, &param);
	return param.sched_priority;
}

static inline int kernel_nice(pid_t tid)
{
	return getpriority(PRIO_PROCESS, (id_t)tid);
}

static inline bool is_fast(pid_t tid)
{
	return kernel_policy(tid) == SCHED_RR;
}

/* By the C library's own door, past TEK's and past a sanitizer's. */
static inline int create_unseen(pthread_t *thread, void *(*routine)(void *), void *argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	*(void **)&create = dlsym(libc, "pthread_create");
	return create(thread, NULL, routine, argument);
}

/* Joins such a thread.  AddressSanitizer of gcc 14 would abort, because it does not know it. */
static inline void join_unseen(pthread_t thread)
{
	int (*join)(pthread_t, void **);
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	*(void **)&join = dlsym(libc, "pthread_join");
	assert_int_equal(join(thread, NULL), 0);
}

/* A size that a thread's stack may have: the C library for aarch64 wants 128 KiB. */
static inline size_t stack_bytes(size_t wanted)
{
	const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	return wanted < least ? least : wanted;
}

/* Skips a test whose child shares the memory of its parent, if a sanitizer does not allow it. */
static inline void skip_unless_clone_shares_memory(void)
{
#if defined(__SANITIZE_THREAD__) && __GNUC__ >= 14
	print_message("# ThreadSanitizer of gcc 14 ends a process that calls clone(CLONE_VM)\n");
	skip();
#endif
}

static inline pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static inline int set_tek(pthread_t thread, int priority)
{
	const struct sched_param param = {.sched_priority = priority};
	return pthread_setschedparam(thread, SCHED_TEK, &param);
}

static inline int set_other(pthread_t thread)
{
	const struct sched_param param = {.sched_priority = 0};
	return pthread_setschedparam(thread, SCHED_OTHER, &param);
}

static inline void sleep_ms(unsigned int ms)
{
	usleep(ms * 1000);
}

/* Skip a test that needs real-time policies where this user may not use them. */
static inline void need_real_time(void)
{
	if (tek_check() == 0)
		return;
	print_message("# needs CAP_SYS_NICE or RLIMIT_RTPRIO\n");
	skip();
}

/* So many threads a test may have: on a device with little memory few, and others run, too. */
static inline int most_threads(void)
{
	FILE *file = fopen("/proc/sys/kernel/threads-max", "re");
	int most = INT_MAX;
	const int rest = 200;

	if (file && fscanf(file, "%d", &most) != 1)
		most = INT_MAX;
	if (file)
		fclose(file);
	return most - rest;
}

static inline void need_threads(int wanted)
{
	if (wanted <= most_threads())
		return;
	print_message("# needs %d threads; of kernel.threads-max a test may have %d\n", wanted,
		      most_threads());
	skip();
}

/* Run `body` in a forked child; its result (0 to 255) is returned, -1 if a signal killed it. */
static inline int in_child(int (*body)(void))
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A thread that waits until it is told to end, so that others can look at it. */
struct waiter {
	pthread_t thread;
	pthread_barrier_t ready;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool end;
	pid_t tid;
};

static inline void *waiter_main(void *argument)
{
	struct waiter *waiter = argument;
	waiter->tid = own_tid();
	pthread_barrier_wait(&waiter->ready);
	pthread_mutex_lock(&waiter->lock);
	while (!waiter->end)
		pthread_cond_wait(&waiter->changed, &waiter->lock);
	pthread_mutex_unlock(&waiter->lock);
	return NULL;
}

/* Creates it without waiting until it runs; then waiter->ready is to be waited for. */
static inline void waiter_start_unsynchronised(struct waiter *waiter, const pthread_attr_t *attr)
{
	waiter->end = false;
	pthread_barrier_init(&waiter->ready, NULL, 2);
	pthread_mutex_init(&waiter->lock, NULL);
	pthread_cond_init(&waiter->changed, NULL);
	assert_int_equal(pthread_create(&waiter->thread, attr, waiter_main, waiter), 0);
}

static inline void waiter_start(struct waiter *waiter, const pthread_attr_t *attr)
{
	waiter_start_unsynchronised(waiter, attr);
	pthread_barrier_wait(&waiter->ready);
}

static inline void waiter_end(struct waiter *waiter)
{
	pthread_mutex_lock(&waiter->lock);
	waiter->end = true;
	pthread_cond_signal(&waiter->changed);
	pthread_mutex_unlock(&waiter->lock);
	pthread_join(waiter->thread, NULL);
	pthread_barrier_destroy(&waiter->ready);
	pthread_mutex_destroy(&waiter->lock);
	pthread_cond_destroy(&waiter->changed);
}

#endif
