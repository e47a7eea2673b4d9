/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * calls - what do the calls of the thread identifier cost in a process of many threads,
 * and what those that a program would make without it?
 *
 * Each round times one batch of every call, on one CPU, and one of the loop around them and
 * one of a call that only returns: what is left of each is the work.  Prints one line of
 * JSON and then waits for the end of its standard input, so that tools can read its table.
 */
#include "batch.h"
#include "crowd.h"

#include "../response/pin.h"

#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

#define DEFAULT_ROUNDS 101
#define DEFAULT_THREADS 2000
#define PICKS 4096 /* a power of 2: tids picked at random */

static struct crowd crowd;
static pthread_t own;
static pid_t picks[PICKS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int (*libc_getschedparam)(pthread_t, int *, struct sched_param *);
static char stat_path[64];

/* Set alternately: each value differs from the one before, so no call is without effect. */
static const struct tek_attributes iterations[2] = {
	{.group = TEK_NORMAL, .role = "reads the temperature"},
	{.group = TEK_SERVICE, .role = "shows the temperature"},
};

/*
 * Defines NAME(times), which evaluates the expression so often with i counting.  The
 * compiler has to assume that i is read in each iteration, so the loop stays.
 */
#define CALL(name, expression) \
	static int name(uint64_t times) \
	{ \
		int error = 0; \
		for (uint64_t i = 0; i < times; i++) { \
			error |= (expression); \
			__asm__ volatile("" : "+r"(i)); \
		} \
		return error; \
	}

static struct tek_attributes got;
static pid_t checked_tid;

CALL(nothing, 0)
CALL(empty_call, !tek_version())
CALL(get_own, tek_thread_get_attributes(own, &got))
CALL(get_other, tek_thread_get_attributes(crowd.threads[0], &got))
CALL(get_tid_one, tek_tid_get_attributes(crowd.tids[0], &got))
CALL(get_tid_random, tek_tid_get_attributes(picks[i % PICKS], &got))
CALL(set_own_group, tek_thread_set_attributes(own, TEK_ATTRIBUTE_GROUP, &iterations[i % 2]))
CALL(set_own_role, tek_thread_set_attributes(own, TEK_ATTRIBUTE_ROLE, &iterations[i % 2]))
CALL(set_other_group,
     tek_thread_set_attributes(crowd.threads[0], TEK_ATTRIBUTE_GROUP, &iterations[i % 2]))
CALL(own_gettid, tek_gettid() <= 0)
CALL(self_checked, tek_self_checked(&checked_tid))
CALL(self_fast, tek_self_fast() <= 0)
CALL(self_register, tek_self_register() == 0)
CALL(interposed_gettid, gettid() <= 0)
CALL(kernel_gettid, syscall(SYS_gettid) <= 0)

static int getschedparam(void)
{
	struct sched_param param;
	int policy;
	return libc_getschedparam(pthread_self(), &policy, &param);
}
CALL(libc_scheduling, getschedparam())

static int lock_and_unlock(void)
{
	return pthread_mutex_lock(&mutex) | pthread_mutex_unlock(&mutex);
}
CALL(mutex_pair, lock_and_unlock())

static int read_stat(void)
{
	char text[512];
	int fd = open(stat_path, O_RDONLY | O_CLOEXEC);
	bool good = fd >= 0 && read(fd, text, sizeof(text)) > 0;
	if (fd >= 0)
		close(fd);
	return !good;
}
CALL(proc_stat, read_stat())

/* `tek bench ident` knows the names. */
static const struct {
	const char *name;
	batch_fn *call;
} calls[] = {
	{"empty loop", nothing},
	{"call that only returns", empty_call},
	{"get own", get_own},
	{"get another's", get_other},
	{"get by tid, one", get_tid_one},
	{"get by tid, random", get_tid_random},
	{"set own group", set_own_group},
	{"set own role", set_own_role},
	{"set another's group", set_other_group},
	{"tek_gettid", own_gettid},
	{"tek_self_checked", self_checked},
	{"tek_self_fast", self_fast},
	{"tek_self_register", self_register},
	{"gettid", interposed_gettid},
	{"gettid, system call", kernel_gettid},
	{"pthread_getschedparam", libc_scheduling},
	{"mutex lock and unlock", mutex_pair},
	{"read /proc stat", proc_stat},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static void prepare(void)
{
	own = pthread_self();
	void *libc = dlopen(LIBC_SO, RTLD_LAZY);
	void *found = libc ? dlsym(libc, "pthread_getschedparam") : NULL;

	if (!found)
		errx(EXIT_FAILURE, "cannot find the C library's pthread_getschedparam");
	memcpy(&libc_getschedparam, &found, sizeof(found));
	srandom(1); /* the same picks in every run */
	for (unsigned int i = 0; i < PICKS; i++)
		picks[i] = crowd.tids[(unsigned long)random() % crowd.count];
	snprintf(stat_path, sizeof(stat_path), "/proc/self/task/%d/stat", (int)crowd.tids[0]);
	for (unsigned int i = 0; i < CALLS; i++) {
		int error = calls[i].call(1);
		if (error)
			errx(EXIT_FAILURE, "%s: %s", calls[i].name, strerror(error));
	}
}

static void measure(unsigned int rounds, double *ns)
{
	uint64_t size[CALLS];

	for (unsigned int i = 0; i < CALLS; i++)
		size[i] = batch_size(calls[i].call);
	for (unsigned int round = 0; round < rounds; round++)
		for (unsigned int i = 0; i < CALLS; i++)
			ns[i * rounds + round] = batch_ns(calls[i].call, size[i]);
}

static void print(unsigned int rounds, const double *ns)
{
	printf("{\"threads\":%u,\"calls\":[", crowd.count + 1);
	for (unsigned int i = 0; i < CALLS; i++) {
		printf("%s{\"name\":\"%s\",\"ns\":[", i ? "," : "", calls[i].name);
		for (unsigned int round = 0; round < rounds; round++)
			printf("%s%.3f", round ? "," : "", ns[i * rounds + round]);
		printf("]}");
	}
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : DEFAULT_ROUNDS;
	int threads = argc > 2 ? atoi(argv[2]) : DEFAULT_THREADS;

	if (argc > 3 || rounds < 1 || rounds > 10000 || threads < 2 || threads > CROWD_MAX) {
		fprintf(stderr,
			"Usage: %s [ROUNDS [THREADS]]\n"
			"ROUNDS: 1 to 10000 (default %d). THREADS: 2 to %d (default %d).\n",
			argv[0], DEFAULT_ROUNDS, CROWD_MAX, DEFAULT_THREADS);
		return 2;
	}
	alarm(300); /* it must end by itself, even if no process waits for it */
	double *ns = calloc(CALLS * (size_t)rounds, sizeof(*ns));
	if (!ns)
		err(EXIT_FAILURE, "no memory");
	crowd_start(&crowd, (unsigned int)threads - 1); /* and this one */
	pin_to_last_cpu(NULL);
	prepare();
	measure((unsigned int)rounds, ns);
	print((unsigned int)rounds, ns);
	free(ns);
	while (getchar() != EOF)
		;
	return EXIT_SUCCESS;
}
