/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names, policies, CPUs, clocks and other things that a thread has for itself; calls that set them.
 */
#include "uthread_states.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#define PR_GET_IO_FLUSHER 58
#endif

static bool set_slack(void)
{
	return prctl(PR_SET_TIMERSLACK, 123456) == 0;
}

static bool set_slack_raw(void)
{
	return syscall(SYS_prctl, PR_SET_TIMERSLACK, 123456) == 0;
}

static long slack(void)
{
	return prctl(PR_GET_TIMERSLACK);
}

static bool set_death(void)
{
	return prctl(PR_SET_PDEATHSIG, SIGCHLD) == 0;
}

static long death(void)
{
	int number = 0;
	prctl(PR_GET_PDEATHSIG, &number);
	return number;
}

static bool set_flusher(void)
{
	return prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0;
}

static long flusher(void)
{
	return prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0);
}

static long name(void)
{
	char text[16] = "";

	prctl(PR_GET_NAME, text);
	return (long)text[0] << 16 | (long)text[1] << 8 | text[2];
}

static bool set_name(void)
{
	return prctl(PR_SET_NAME, "another") == 0;
}

static bool set_name_raw(void)
{
	return syscall(SYS_prctl, PR_SET_NAME, "any") == 0;
}

static bool set_persona(void)
{
	return personality(ADDR_NO_RANDOMIZE) >= 0;
}

static long persona(void)
{
	return personality(0xffffffff);
}

static bool set_nice(void)
{
	return setpriority(PRIO_PROCESS, 0, 5) == 0;
}

static bool set_nice_by_nice(void)
{
	errno = 0;
	return nice(3) >= 0 && errno == 0;
}

static bool set_nice_by_tid(void)
{
	return setpriority(PRIO_PROCESS, (id_t)gettid(), 4) == 0;
}

static bool set_nice_raw(void)
{
	return syscall(SYS_setpriority, PRIO_PROCESS, (int)syscall(SYS_gettid), 6) == 0;
}

static long nice_value(void)
{
	return getpriority(PRIO_PROCESS, 0);
}

static bool set_policy(void)
{
	const struct sched_param param = {0};
	return sched_setscheduler(0, SCHED_BATCH, &param) == 0;
}

static bool set_policy_raw(void)
{
	struct {
		unsigned int size, policy;
		unsigned long long flags;
		int nice;
		unsigned int priority;
		unsigned long long runtime, deadline, period;
	} attr = {.size = sizeof(attr), .policy = SCHED_IDLE};
	return syscall(SYS_sched_setattr, 0, &attr, 0) == 0;
}

static long policy(void)
{
	return sched_getscheduler(0);
}

static bool set_cpus(void)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return false;
	CPU_ZERO(&one);
	for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++) {
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	}
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

static long cpus(void)
{
	cpu_set_t now;
	return sched_getaffinity(0, sizeof(now), &now) ? -1 : CPU_COUNT(&now);
}

static bool set_io(void)
{
	return syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6) == 0;
}

static long io(void)
{
	return syscall(SYS_ioprio_get, 1, 0);
}

static bool set_memory(void)
{
	return syscall(SYS_set_mempolicy, 4 /* MPOL_LOCAL */, NULL, 0) == 0;
}

static long memory(void)
{
	int mode = -1;
	return syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) ? -1 : mode;
}

static bool set_stack(void)
{
	static char room[4][1 << 16];
	static atomic_uint next;
	const stack_t stack = {
		.ss_sp = room[atomic_fetch_add(&next, 1) % 4],
		.ss_size = sizeof(room[0]),
	};
	return sigaltstack(&stack, NULL) == 0;
}

/* Threads do not inherit it, and the engine has its own: tests whether it is the caller's. */
static long stack(void)
{
	stack_t now = {0};
	sigaltstack(NULL, &now);
	return now.ss_sp && now.ss_size == 1 << 16 && !(now.ss_flags & SS_DISABLE) &&
	       (uintptr_t)now.ss_sp - (uintptr_t)set_stack < (uintptr_t)1 << 30;
}

/* The name of the kernel thread, which threads share: set only once that is the caller's own. */
static bool set_by_file(void)
{
	FILE *file = fopen("/proc/thread-self/comm", "we");
	return file && fputs("by-file", file) >= 0 && fclose(file) == 0;
}

static long by_file(void)
{
	char text[16] = "";
	FILE *file = fopen("/proc/thread-self/comm", "re");

	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	if (file)
		fclose(file);
	return strcmp(text, "by-file\n") == 0;
}

static bool set_by_tid_file(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)syscall(SYS_gettid));
	const int file = open(path, O_WRONLY | O_CLOEXEC);
	const bool written = file >= 0 && write(file, "by-file", 7) == 7;
	close(file);
	return written;
}

#if defined(__x86_64__)
static bool set_segment(void)
{
	return syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, 0x123000) == 0;
}

static long segment(void)
{
	unsigned long base = 0;
	syscall(SYS_arch_prctl, 0x1004 /* ARCH_GET_GS */, &base);
	return (long)base;
}

/* Elsewhere reading the register is an illegal instruction. */
static bool has_rights(void)
{
	unsigned int a, b, c = 0, d;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & bit_OSPKE);
}

static bool set_rights(void)
{
	return has_rights() && pkey_alloc(0, PKEY_DISABLE_WRITE) == 1;
}

static long rights(void)
{
	return has_rights() ? pkey_get(1) : 0;
}
#endif

static const struct state states[] = {
	{"PR_SET_TIMERSLACK", set_slack, slack, false, false},
	{"PR_SET_TIMERSLACK by number", set_slack_raw, slack, false, false},
	{"PR_SET_PDEATHSIG", set_death, death, true, false},
	{"PR_SET_IO_FLUSHER", set_flusher, flusher, false, false},
	{"PR_SET_NAME", set_name, name, true, true},
	{"PR_SET_NAME by number", set_name_raw, name, true, true},
	{"personality", set_persona, persona, false, false},
	{"setpriority", set_nice, nice_value, false, false},
	{"setpriority by thread id", set_nice_by_tid, nice_value, false, false},
	{"setpriority by number", set_nice_raw, nice_value, false, false},
	{"nice", set_nice_by_nice, nice_value, false, false},
	{"sched_setscheduler", set_policy, policy, false, false},
	{"sched_setattr by number", set_policy_raw, policy, false, false},
	{"sched_setaffinity", set_cpus, cpus, false, false},
	{"ioprio_set", set_io, io, false, false},
	{"set_mempolicy", set_memory, memory, false, false},
	{"sigaltstack", set_stack, stack, true, false},
	{"/proc/thread-self", set_by_file, by_file, true, true},
	{"/proc/self/task", set_by_tid_file, by_file, true, true},
#if defined(__x86_64__)
	{"ARCH_SET_GS", set_segment, segment, false, false},
	{"pkey_alloc", set_rights, rights, false, false},
#endif
};

static struct state_list list = {states, sizeof(states) / sizeof(states[0])};

/* ---- what is not a value ---- */

static long long microseconds(const struct timespec *time)
{
	return time->tv_sec * 1000000LL + time->tv_nsec / 1000;
}

static void the_clock_of_a_thread_counts_no_other_ones_time(void **unused)
{
	struct timespec begin, end, began, ended;
	struct rusage first, last;

	(void)unused;
	NEEDS_PREEMPTION();
	atomic_store(&over, 0);
	pthread_t thread = start(compute, NULL);
	clock_gettime(CLOCK_MONOTONIC, &began);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	getrusage(RUSAGE_THREAD, &first);
	for (int i = 0; i < 50; i++)
		nap(5);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	getrusage(RUSAGE_THREAD, &last);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	atomic_store(&over, 1);
	result_of(thread);
	const long long half = (microseconds(&ended) - microseconds(&began)) / 2;
	assert_true(microseconds(&end) - microseconds(&begin) < half);
	assert_true(last.ru_utime.tv_sec * 1000000 + last.ru_utime.tv_usec -
			    first.ru_utime.tv_sec * 1000000 - first.ru_utime.tv_usec <
		    half);
}

static long long own_time, whole_time;

static void *own_clock(void *unused)
{
	struct timespec began, ended, begin, end;
	clockid_t clock;

	pthread_getcpuclockid(pthread_self(), &clock);
	clock_gettime(CLOCK_MONOTONIC, &began);
	clock_gettime(clock, &begin);
	for (int i = 0; i < 50; i++)
		nap(5);
	clock_gettime(clock, &end);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	own_time = microseconds(&end) - microseconds(&begin);
	whole_time = microseconds(&ended) - microseconds(&began);
	return unused;
}

static void the_clock_that_a_thread_gets_for_itself_is_its_own(void **unused)
{
	(void)unused;
	NEEDS_PREEMPTION();
	atomic_store(&over, 0);
	pthread_t thread = start(compute, NULL);
	result_of(start(own_clock, NULL));
	atomic_store(&over, 1);
	result_of(thread);
	assert_true(own_time < whole_time / 2);
}

static void *use_wrong_addresses(void *unused)
{
	const long wrong = 8, mask_bytes = 8;
	const long calls[][5] = {
		{SYS_rt_sigprocmask, SIG_BLOCK, wrong, 0, mask_bytes},
		{SYS_rt_sigprocmask, SIG_BLOCK, 0, wrong, mask_bytes},
		{SYS_prctl, PR_SET_NAME, wrong, 0, 0},
		{SYS_prctl, PR_GET_NAME, wrong, 0, 0},
		{SYS_timer_create, CLOCK_MONOTONIC, wrong, wrong, 0},
		{SYS_sched_setaffinity, 0, sizeof(cpu_set_t), wrong, 0},
	};
	(void)unused;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		errno = 0;
		if (syscall(calls[i][0], calls[i][1], calls[i][2], calls[i][3], calls[i][4]) !=
			    -1 ||
		    errno != EFAULT)
			return (void *)(intptr_t)(i + 1);
	}
	return NULL;
}

static void calls_with_wrong_addresses_fail(void **unused)
{
	(void)unused;
	assert_null(result_of(start(use_wrong_addresses, NULL)));
	assert_int_equal(prctl(PR_SET_NAME, (char *)8), -1);
	assert_int_equal(errno, EFAULT);
}

static void a_name_may_end_where_memory_ends(void **unused)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	char before[16], name[16];
	(void)unused;
	assert_ptr_not_equal(two, MAP_FAILED);
	assert_int_equal(munmap(two + page, page), 0);
	assert_int_equal(prctl(PR_GET_NAME, before), 0);
	memcpy(two + page - 6, "short", 6);
	assert_int_equal(prctl(PR_SET_NAME, two + page - 6), 0);
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	assert_string_equal(name, "short");
	assert_int_equal(prctl(PR_SET_NAME, before), 0);
	munmap(two, page);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TESTS_OF_STATES(&list),
		cmocka_unit_test(the_clock_of_a_thread_counts_no_other_ones_time),
		cmocka_unit_test(the_clock_that_a_thread_gets_for_itself_is_its_own),
		cmocka_unit_test(calls_with_wrong_addresses_fail),
		cmocka_unit_test(a_name_may_end_where_memory_ends),
	};

	if (argc == 2)
		return run_alone(&states[atoi(argv[1])]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
