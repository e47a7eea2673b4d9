/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stack_sizes THREADS KIB [ATTRIBUTES [END [NAME]]]: THREADS threads use KIB KiB of their stacks,
 * all at once; it prints the properties of the last one's stack.  ATTRIBUTES:
 *   none          NULL
 *   size=BYTES, noguard, memory=BYTES (pthread_attr_setstack), defaults=BYTES
 * END, in the threads or after them:
 *   ended, sleep (until there is input), killed, later (both), _exit, SYS_exit, fork, exec (in
 *   a child), become (exec), locked (mlockall), limited (RLIMIT_AS)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 200, SEEN_US = 1500000 }; /* within this time TEK measures all threads */

static int kib;
static const char *end = "ended", *name = "worker";
static pthread_barrier_t all_used;

__attribute__((noinline)) int use(int depth)
{
	volatile char frame[1000];

	frame[0] = (char)depth;
	return depth > 0 ? use(depth - 1) + frame[0] : 0;
}

static char reported[160];

static void learn_of(pthread_t thread)
{
	size_t bytes = 0, guard = 0;
	pthread_attr_t attr;
	void *low;

	pthread_getattr_np(thread, &attr);
	pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_getguardsize(&attr, &guard);
	pthread_attr_destroy(&attr);
	snprintf(reported, sizeof(reported), "stack %zu guard %zu\n", bytes, guard);
}

static void *work(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), name);
	use(kib);
	pthread_barrier_wait(&all_used);
	while (strcmp(end, "sleep") == 0 || strcmp(end, "later") == 0 || strcmp(end, "become") == 0)
		pause();
	if (strcmp(end, "SYS_exit") == 0)
		syscall(SYS_exit, 0);
	return NULL;
}

static void report_locked(void)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), status))
		if (strncmp(line, "VmLck:", 6) == 0)
			fputs(line, stdout);
	fclose(status);
}

static const pthread_attr_t *attributes(const char *text, pthread_attr_t *attr)
{
	const char *value = strchr(text, '=');
	size_t bytes = value ? strtoul(value + 1, NULL, 10) : 0;

	pthread_attr_init(attr);
#ifdef ADVICE
	ADVICE(attr);
	return attr;
#endif
	if (strcmp(text, "none") == 0)
		return NULL;
	if (strncmp(text, "size=", 5) == 0)
		pthread_attr_setstacksize(attr, bytes);
	else if (strcmp(text, "noguard") == 0)
		pthread_attr_setguardsize(attr, 0);
	else if (strncmp(text, "memory=", 7) == 0)
		pthread_attr_setstack(attr,
				      mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
				      bytes);
	else {
		pthread_attr_setstacksize(attr, bytes);
		pthread_setattr_default_np(attr);
		return NULL;
	}
	return attr;
}

/* A child that has threads of its own. */
static int in_child(char **argv, const char *how)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0 && strcmp(how, "exec") == 0)
		execl(argv[0], argv[0], argv[1], argv[2], argv[3], "ended", "in-child", NULL);
	if (child == 0) {
		end = "ended";
		name = "in-child";
		return -1;
	}
	waitpid(child, &status, 0);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 3;
}

int main(int argc, char **argv)
{
	int count = atoi(argv[1]);
	pthread_t threads[MOST];
	pthread_attr_t attr;
	const pthread_attr_t *chosen = NULL;
	const struct rlimit small = {30u << 20, 30u << 20};

	alarm(60);
	kib = atoi(argv[2]);
	chosen = attributes(argc > 3 ? argv[3] : "none", &attr);
	if (argc > 4)
		end = argv[4];
	if (argc > 5)
		name = argv[5];
	if (strcmp(end, "fork") == 0 || strcmp(end, "exec") == 0) {
		int status = in_child(argv, end);
		if (status >= 0)
			end = "ended";
		if (status > 0)
			return 5;
	}
	if (strcmp(end, "limited") == 0 && setrlimit(RLIMIT_AS, &small))
		return 4;
	if (strcmp(end, "locked") == 0 && mlockall(MCL_CURRENT | MCL_FUTURE))
		return 77;
	pthread_barrier_init(&all_used, NULL, (unsigned int)count + 1);
	for (int i = 0; i < count; i++) {
		if (pthread_create(&threads[i], chosen, work, NULL))
			return 6;
		/* TEK knows the kind; it may measure the next threads, too. */
		if (strcmp(end, "locked") == 0 && (i == count / 2 || i == count - 1))
			usleep(SEEN_US);
	}
	learn_of(threads[count - 1]);
	pthread_barrier_wait(&all_used);
	fputs(reported, stdout);
	if (strcmp(end, "locked") == 0)
		report_locked();
	fflush(stdout);
	if (strcmp(end, "become") == 0)
		return execl(argv[0], argv[0], argv[1], argv[2], argv[3], "ended", "in-child",
			     NULL);
	if (strcmp(end, "sleep") == 0 || strcmp(end, "later") == 0)
		getchar();
	if (strcmp(end, "sleep") == 0)
		return 3;
	if (strcmp(end, "killed") == 0 || strcmp(end, "later") == 0)
		raise(SIGKILL);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (strcmp(end, "_exit") == 0)
		_exit(3);
	return 3;
}
