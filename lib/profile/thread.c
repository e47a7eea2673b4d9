/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/thread.h"

#include "base/procfs.h"
#include "profile/account.h"
#include "profile/release.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Thread_local struct tek_profile_self tek_prof__self;

/* Decimal digits of a number, before `end`. Not snprintf(): the caller may hold a lock of stdio. */
static char *digits(char *end, uint32_t number)
{
	do
		*--end = (char)('0' + number % 10);
	while (number /= 10);
	return end;
}

/*
 * ns that a thread of this process ran.  In schedstat a thread that runs has what it had at the
 * scheduler's last tick, some ms ago, and the rest would be taken for waiting; its clock is exact.
 * Of such clocks the tid is the upper bits, negated: pthread_getcpuclockid(3).
 */
static uint64_t clock_ns(uint32_t tid, uint64_t otherwise)
{
	const clockid_t per_thread_sched = 6;
	clockid_t clock = (clockid_t)((~tid << 3) | (uint32_t)per_thread_sched);
	struct timespec ran;

	if (clock_gettime(clock, &ran) != 0)
		return otherwise;
	return (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
}

bool tek_prof__scheduler(uint32_t tid, uint64_t *run_ns, uint64_t *delay_ns)
{
	static const char before[] = "/proc/self/task/", behind[] = "/schedstat";
	char path[64], number[10], text[80];
	char *first = digits(number + sizeof(number), tid);
	size_t length = (size_t)(number + sizeof(number) - first);
	int saved = errno;

	memcpy(path, before, sizeof(before) - 1);
	memcpy(path + sizeof(before) - 1, first, length);
	memcpy(path + sizeof(before) - 1 + length, behind, sizeof(behind));
	/* System calls: the C library's open() is a point of cancellation, and ours. */
	int fd = -1;
	if (tek__procfs_exists((pid_t)tid))
		fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = -1;
	if (fd >= 0) {
		bytes = syscall(SYS_read, fd, text, sizeof(text) - 1);
		syscall(SYS_close, fd);
	}
	if (bytes <= 0) {
		errno = saved;
		return false;
	}
	text[bytes] = '\0';
	const char *at = text;
	uint64_t numbers[2] = {0, 0};
	for (int i = 0; i < 2; i++) {
		while (*at == ' ')
			at++;
		while (*at >= '0' && *at <= '9')
			numbers[i] = numbers[i] * 10 + (uint64_t)(*at++ - '0');
	}
	*run_ns = clock_ns(tid, numbers[0]);
	errno = saved;
	*delay_ns = numbers[1];
	return true;
}

/* The attempts of tek_prof__ask_scheduler(). */
#define TRIES 4

void tek_prof__ask_scheduler(struct tek_profile_thread *thread)
{
	uint64_t run, delay, began, now = tek_prof__ticks();

	/* The kernel takes the CPU of a thread most often at the end of a system call. What the
	 * thread then waits after schedstat was read is not in it: it is read again. */
	for (int try = 0; try < TRIES; try++) {
		began = now;
		if (!tek_prof__scheduler(thread->tid, &run, &delay))
			return;
		now = tek_prof__ticks();
		if (now - began < tek_prof__ticks_of_ns(TEK_PROFILE_LONG_NS))
			break;
	}
	/* At the process's end another thread may do so at the same time. */
	__atomic_store_n(&thread->run_ns, run, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->delay_ns, delay, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->scheduler_ticks, now, __ATOMIC_RELAXED);
	if (thread == tek_prof__file_thread(tek_prof__self.number))
		thread->timed[0]++;
}

static pthread_key_t end_key;
static bool is_open;

static void end(void *unused)
{
	(void)unused;
	tek_prof__thread_end();
}

void tek_prof__threads_prepare(void)
{
	pthread_key_create(&end_key, end);
}

void tek_prof__threads_open(void)
{
	__atomic_store_n(&is_open, true, __ATOMIC_RELEASE);
}

static bool counts(void)
{
	tek_prof__process_forked();
	return __atomic_load_n(&is_open, __ATOMIC_ACQUIRE) && tek_prof__file;
}

uint32_t tek_prof__thread_new(void)
{
	struct tek_profile_thread *creator = counts() ? tek_prof__thread() : NULL;
	uint32_t number = counts() ? tek_prof__file_take_thread() : 0;

	/* Without one it asks itself, and is counted as lost where that is in vain, too. */
	if (number) {
		struct tek_profile_thread *thread = tek_prof__file_thread(number);
		thread->creator = creator ? tek_prof__self.number : 0;
		thread->created_ticks = tek_prof__ticks();
	}
	return number;
}

void tek_prof__thread_unused(uint32_t number)
{
	struct tek_profile_thread *thread = tek_prof__file_thread(number);

	/* Its next owner may not have been created through TEK. */
	thread->routine = thread->argument = thread->function = 0;
	thread->created_ticks = 0;
	thread->creator = 0;
	tek_prof__file_give_back_thread(number);
}

void tek_prof__thread_begin(uint32_t number)
{
	struct tek_profile_self *self = &tek_prof__self;
	struct tek_profile_thread *thread = tek_prof__file_thread(number);

	/* Calls meanwhile do not count, and find no other thread. */
	self->is_over = true;
	self->number = number;
	self->random = number;
	pthread_setspecific(end_key, self);
	thread->tid = (tek_u32)syscall(SYS_gettid);
	__atomic_store_n(&thread->handle, (uintptr_t)pthread_self(), __ATOMIC_RELAXED);
	prctl(PR_GET_NAME, thread->name);
	tek_prof__ask_scheduler(thread);
	thread->first_run_ns = thread->run_ns;
	thread->first_delay_ns = thread->delay_ns;
	uint64_t now = tek_prof__ticks();
	/*
	 * Until it ran it was ready: that is the scheduler's delay, which began when it was
	 * created.
	 */
	__atomic_store_n(&thread->begin_ticks, now, __ATOMIC_RELEASE);
	tek_prof__active(number, now);
	self->asked = now;
	self->thread = thread;
	/* A signal handler before this finds a thread that does not count yet. */
	__atomic_signal_fence(__ATOMIC_RELEASE);
	self->is_over = false;
}

void tek_prof__thread_begin_first(void)
{
	uint32_t number = tek_prof__file_take_thread();

	if (number)
		tek_prof__thread_begin(number);
	else
		tek_prof__file->lost_threads = 1;
}

/*
 * A thread of TEK's own, of `tek run` around us (threads/helper.h): those are made behind our back
 * and named first.  It is not the program's, and would never leave another thread alone.
 */
static bool is_helper(void)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	return strncmp(name, "tek-", 4) == 0;
}

struct tek_profile_thread *tek_prof__adopt(void)
{
	struct tek_profile_self *self = &tek_prof__self;

	if (!counts() || self->is_over || self->thread)
		return self->thread;
	/* Calls meanwhile do not come here again. */
	self->is_over = true;
	if (is_helper())
		return NULL;
	uint32_t number = tek_prof__file_take_thread();
	if (number)
		tek_prof__thread_begin(number);
	else
		__atomic_fetch_add(&tek_prof__file->lost_threads, 1, __ATOMIC_RELAXED);
	return self->thread;
}

void tek_prof__thread_end(void)
{
	struct tek_profile_self *self = &tek_prof__self;
	struct tek_profile_thread *thread = self->thread;

	/* Of a child that has not counted anything, nothing is known. */
	if (!thread || !tek_prof__process_is_known()) {
		self->is_over = true;
		return;
	}
	/* A cancelled thread does not return from the call in which it was. */
	if (thread->inside)
		tek_prof__left(thread);
	prctl(PR_GET_NAME, thread->name);
	tek_prof__ask_scheduler(thread);
	tek_prof__releases((const void *)pthread_self());
	/* In this order: a signal handler finds no thread that might be a new one. */
	self->is_over = true;
	__atomic_signal_fence(__ATOMIC_RELEASE);
	self->thread = NULL;
	uint64_t now = tek_prof__ticks();
	tek_prof__inactive(self->number, now);
	__atomic_store_n(&thread->end_ticks, now, __ATOMIC_RELEASE);
	tek_prof__file_times();
}

void tek_prof__thread_named(pthread_t handle, const char *name)
{
	struct tek_profile_header *file = tek_prof__process_is_known() ? tek_prof__file : NULL;
	uint32_t threads = file ? __atomic_load_n(&file->threads, __ATOMIC_RELAXED) : 0;

	/* From the latest one back: a thread that gets a name was usually just made. */
	for (uint32_t number = threads; number > 0; number--) {
		if (!tek_prof__file_has(number))
			continue;
		struct tek_profile_thread *thread = tek_prof__file_thread(number);
		if (__atomic_load_n(&thread->handle, __ATOMIC_RELAXED) != (uintptr_t)handle ||
		    __atomic_load_n(&thread->end_ticks, __ATOMIC_RELAXED))
			continue;
		strncpy((char *)thread->name, name, sizeof(thread->name) - 1);
		return;
	}
}

void tek_prof__threads_last(void)
{
	struct tek_profile_header *file = tek_prof__file;
	struct tek_profile_self *self = &tek_prof__self;

	if (!file || !tek_prof__process_is_known())
		return;
	uint32_t threads = __atomic_load_n(&file->threads, __ATOMIC_RELAXED);
	for (uint32_t number = 1; number <= threads && number <= TEK_PROFILE_MAX_THREADS;
	     number++) {
		struct tek_profile_thread *thread = tek_prof__file_thread(number);
		if (!tek_prof__file_has(number))
			continue;
		if (__atomic_load_n(&thread->begin_ticks, __ATOMIC_ACQUIRE) &&
		    !__atomic_load_n(&thread->end_ticks, __ATOMIC_ACQUIRE))
			tek_prof__ask_scheduler(thread);
	}
	if (self->thread)
		prctl(PR_GET_NAME, self->thread->name);
}
