/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "late.h"

#include "task.h"

#include "../response/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LATE 200   /* samples that are kept */
#define MAX_THREADS 40 /* of one sample */
#define STACK_BYTES 1500
#define CHECKS 6 /* at one answer, each after twice the time */

struct thread {
	int tid;
	char name[32];
	char state;
	unsigned policy, priority;
	int cpu;
	char stack[STACK_BYTES]; /* as the kernel prints it */
};

struct examine {
	uint64_t due_ns, at_ns;
	unsigned count;
	struct thread threads[MAX_THREADS];
};

static struct examine *examinations;
static unsigned examine_count;
static _Atomic uint64_t due; /* of the answer that is awaited; 0: none */
static atomic_bool over;
static uint64_t late_ns;
static int own_priority, watched, self;
static pthread_t thread;

/* Its text; NULL where there is none (any more). */
static const char *read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	if (length < 0)
		return NULL;
	text[length] = '\0';
	return text;
}

/* The part of stat behind the name: false if the thread has ended. */
static bool parse_stat(char *text, struct thread *found, unsigned *threads)
{
	char *name = strchr(text, '('), *end = strrchr(text, ')');

	if (!name || !end)
		return false;
	*end = '\0';
	snprintf(found->name, sizeof(found->name), "%s", name + 1);
	/* The fields from the state, which is the third, on. */
	char *field = strtok(end + 1, " ");
	for (unsigned number = 3; field; field = strtok(NULL, " "), number++) {
		if (number == 3)
			found->state = *field;
		else if (number == 20)
			*threads = (unsigned)atoi(field);
		else if (number == 39)
			found->cpu = atoi(field);
		else if (number == 40)
			found->priority = (unsigned)atoi(field);
		else if (number == 41)
			found->policy = (unsigned)atoi(field);
	}
	return true;
}

/* Whether a thread was interrupted in user space, or sleeps for its own sake: no other thread waits
 * for it inside the kernel. */
static bool is_in_user_space(const char *stack)
{
	static const char *const functions[] = {
		" irqentry_exit_to_user", " exit_to_user",  " futex_do_wait", " do_nanosleep",
		" hrtimer_nanosleep",     " do_epoll_wait", " do_poll",       " do_sys_poll"};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const char *found = strstr(stack, functions[i]);
		if (found && found < stack + strcspn(stack, "\n"))
			return true;
	}
	return !stack[0];
}

/* One thread is of interest if it is the task, or is not in user space and waits for a CPU or for
 * another thread. How many threads its process has. */
static unsigned examine_one(struct examine *examine, int tid)
{
	char path[64], text[1024];
	unsigned threads = 1;
	struct thread *found = &examine->threads[examine->count];

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	if (examine->count >= MAX_THREADS || tid == self || !read_file(path, text, sizeof(text)))
		return threads;
	*found = (struct thread){.tid = tid};
	if (!parse_stat(text, found, &threads))
		return threads;
	if (found->state != 'R' && found->state != 'D' && tid != watched)
		return threads;
	snprintf(path, sizeof(path), "/proc/%d/stack", tid);
	if (!read_file(path, found->stack, sizeof(found->stack)) ||
	    (tid != watched && is_in_user_space(found->stack)))
		return threads;
	examine->count++;
	return threads;
}

/* All threads of the machine. */
static void examine_all(uint64_t due_ns)
{
	struct examine *examine = &examinations[examine_count];
	DIR *directory = opendir("/proc");
	struct dirent *entry;

	examine->due_ns = due_ns;
	examine->at_ns = clock_ns();
	examine->count = 0;
	examine_one(examine, watched);
	while (directory && (entry = readdir(directory))) {
		int pid = isdigit(entry->d_name[0]) ? atoi(entry->d_name) : 0;
		if (!pid || pid == watched || examine_one(examine, pid) < 2)
			continue;
		char path[300];
		snprintf(path, sizeof(path), "/proc/%d/task", pid);
		DIR *tasks = opendir(path);
		while (tasks && (entry = readdir(tasks))) {
			int tid = isdigit(entry->d_name[0]) ? atoi(entry->d_name) : 0;
			if (tid && tid != pid && tid != watched)
				examine_one(examine, tid);
		}
		if (tasks)
			closedir(tasks);
	}
	if (directory)
		closedir(directory);
	examine_count++;
}

static void *run(void *unused)
{
	uint64_t seen_ns = 0, next_ns = 0;
	unsigned times = 0;

	self = gettid();
	be_realtime(own_priority);
	for (uint64_t wake_ns = clock_ns(); !atomic_load(&over); wake_ns += late_ns / 2) {
		sleep_until(wake_ns);
		uint64_t due_ns = atomic_load(&due), now_ns = clock_ns();
		wake_ns = now_ns;
		if (due_ns != seen_ns) {
			seen_ns = due_ns;
			next_ns = due_ns + late_ns;
			times = 0;
		}
		if (!due_ns || now_ns < next_ns || times == CHECKS || examine_count == MAX_LATE)
			continue;
		examine_all(due_ns);
		times++;
		next_ns = due_ns + (late_ns << times);
	}
	return unused;
}

void late_start(uint64_t wanted_ns, int priority)
{
	late_ns = wanted_ns;
	own_priority = priority;
	watched = gettid();
	examinations = calloc(MAX_LATE, sizeof(*examinations));
	if (!examinations)
		err(EXIT_FAILURE, "cannot keep what late answers wait for");
	errno = pthread_create(&thread, NULL, run, NULL);
	if (errno)
		err(EXIT_FAILURE, "cannot start a thread");
}

void late_begin(uint64_t due_ns)
{
	atomic_store(&due, due_ns);
}

void late_end(void)
{
	atomic_store(&due, 0);
}

void late_join(void)
{
	atomic_store(&over, true);
	if (examinations)
		pthread_join(thread, NULL);
}

/* Names can be anything. */
static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < ' ' ? '?' : *text);
	}
	putchar('"');
}

/* Functions of a stack, of lines as "[<0>] jbd2_log_wait_commit+0x9c/0x110". */
static void print_stack(char *stack)
{
	const char *comma = "";

	putchar('[');
	for (char *line = strtok(stack, "\n"); line; line = strtok(NULL, "\n")) {
		char *name = strchr(line, ' ');
		name = name ? name + 1 : line;
		name[strcspn(name, "+ ")] = '\0';
		fputs(comma, stdout);
		print_text(name);
		comma = ",";
	}
	putchar(']');
}

void late_print(uint64_t from_ns)
{
	printf("\"late\":[");
	for (unsigned i = 0; i < examine_count; i++) {
		struct examine *examine = &examinations[i];
		printf("%s{\"due_ns\":%" PRIu64 ",\"after_ns\":%" PRIu64 ",\"threads\":[",
		       i ? "," : "", examine->due_ns - from_ns, examine->at_ns - examine->due_ns);
		for (unsigned j = 0; j < examine->count; j++) {
			struct thread *it = &examine->threads[j];
			printf("%s{\"tid\":%d,\"name\":", j ? "," : "", it->tid);
			print_text(it->name);
			printf(",\"state\":\"%c\",\"policy\":%u,\"priority\":%u,\"cpu\":%d,"
			       "\"stack\":",
			       it->state, it->policy, it->priority, it->cpu);
			print_stack(it->stack);
			putchar('}');
		}
		printf("]}");
	}
	printf("]");
}
