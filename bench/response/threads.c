/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads.h"

#include "clock.h"
#include "hook.h"
#include "stage.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct thread threads[MAX_THREADS];
unsigned thread_count;

void thread_add(const char *name, const char *group, enum thread_kind kind,
		void (*run)(struct thread *self))
{
	if (thread_count == MAX_THREADS)
		errx(EXIT_FAILURE, "more than %d threads: ask for fewer hogs", MAX_THREADS);
	threads[thread_count++] = (struct thread){
		.name = name, .group = group, .kind = kind, .run = run};
}

static void *thread_main(void *arg)
{
	struct thread *self = arg;
	self->tid = (pid_t)syscall(SYS_gettid);
	self->before = thread_sched_read(self->tid); /* its name can make it critical */
	pthread_setname_np(pthread_self(), self->name);
	if (self->kind == KIND_EVENT)
		hook_critical_begin();
	stage_parked();

	self->run(self);

	stage_wait(STAGE_LEAVE);
	if (self->kind == KIND_EVENT)
		hook_critical_end();
	stage_parked();
	stage_wait(STAGE_EXIT);
	return NULL;
}

void threads_start(void)
{
	for (unsigned i = 0; i < thread_count; i++) {
		errno = pthread_create(&threads[i].handle, NULL, thread_main, &threads[i]);
		if (errno)
			err(EXIT_FAILURE, "cannot start thread %s", threads[i].name);
	}
	stage_wait_parked(thread_count);
}

void threads_join(void)
{
	for (unsigned i = 0; i < thread_count; i++)
		pthread_join(threads[i].handle, NULL);
}

static FILE *open_task_file(pid_t tid, const char *file)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, file);
	return fopen(path, "re");
}

static void read_switches(const struct thread *thread, struct thread_counts *counts)
{
	char line[256];
	FILE *status = open_task_file(thread->tid, "status");
	if (!status)
		err(EXIT_FAILURE, "cannot read /proc/self/task/%d/status", (int)thread->tid);
	while (fgets(line, sizeof(line), status)) {
		sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &counts->voluntary);
		sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &counts->involuntary);
	}
	fclose(status);
}

static void read_cpu_time(const struct thread *thread, struct thread_counts *counts)
{
	clockid_t clock;
	struct timespec used;
	if (pthread_getcpuclockid(thread->handle, &clock) || clock_gettime(clock, &used))
		errx(EXIT_FAILURE, "cannot read the CPU time of thread %s", thread->name);
	counts->cpu_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

static void read_run_delay(const struct thread *thread, struct thread_counts *counts)
{
	uint64_t on_cpu;
	FILE *schedstat = open_task_file(thread->tid, "schedstat");
	/* A kernel without CONFIG_SCHED_INFO, as on small devices, does not count it. */
	if (!schedstat)
		return;
	counts->has_run_delay = fscanf(schedstat, "%" SCNu64 " %" SCNu64, &on_cpu,
				       &counts->run_delay_ns) == 2;
	fclose(schedstat);
}

static struct thread_counts read_counts(const struct thread *thread)
{
	struct thread_counts counts = {0};
	read_switches(thread, &counts);
	read_cpu_time(thread, &counts);
	read_run_delay(thread, &counts);
	return counts;
}

void threads_count_begin(void)
{
	for (unsigned i = 0; i < thread_count; i++)
		threads[i].counts = read_counts(&threads[i]);
}

void threads_count_end(void)
{
	for (unsigned i = 0; i < thread_count; i++) {
		struct thread_counts *first = &threads[i].counts;
		struct thread_counts last = read_counts(&threads[i]);
		first->voluntary = last.voluntary - first->voluntary;
		first->involuntary = last.involuntary - first->involuntary;
		first->cpu_ns = last.cpu_ns - first->cpu_ns;
		first->run_delay_ns = last.run_delay_ns - first->run_delay_ns;
	}
}

struct thread_sched thread_sched_read(pid_t tid)
{
	/* struct sched_attr as Linux 3.14 has it; glibc 2.36 does not declare it. */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr;
	/* The system call itself, so that no library can answer in the kernel's place. */
	if (syscall(SYS_sched_getattr, tid, &attr, sizeof(attr), 0))
		err(EXIT_FAILURE, "sched_getattr of thread %d", (int)tid);
	return (struct thread_sched){.policy = attr.policy,
				     .priority = attr.priority,
				     .nice = attr.nice,
				     .flags = attr.flags};
}
