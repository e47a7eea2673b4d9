/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel keeps for one thread, and a thread changes for itself: it keeps that, a thread that it creates
 * inherits it, and no other thread has it.  A change by the only thread of a program is one for all that it creates later.
 */
#include "uthread_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif
#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#define PR_GET_IO_FLUSHER 58
#endif

enum { ROUNDS = 25, LATER = 4, OTHER_ID = 65534 };

/* ---- one pair for each state: change it for the caller; what the caller has ---- */

static bool set_file_user(void)
{
	setfsuid(OTHER_ID);
	return true;
}

static bool set_file_user_raw(void)
{
	syscall(SYS_setfsuid, OTHER_ID);
	return true;
}

static long file_user(void)
{
	return setfsuid(-1);
}

static bool set_file_group(void)
{
	setfsgid(OTHER_ID);
	return true;
}

static long file_group(void)
{
	return setfsgid(-1);
}

static bool set_user(void)
{
	return syscall(SYS_setresuid, -1, OTHER_ID, -1) == 0;
}

static long user(void)
{
	return syscall(SYS_geteuid);
}

static bool set_group(void)
{
	return syscall(SYS_setresgid, -1, OTHER_ID, -1) == 0;
}

static long group(void)
{
	return syscall(SYS_getegid);
}

static bool set_groups(void)
{
	const gid_t groups[] = {OTHER_ID, 7};
	return syscall(SYS_setgroups, 2, groups) == 0;
}

static long groups(void)
{
	gid_t groups[64];
	long sum = getgroups(64, groups);

	for (long i = sum - 1; i >= 0; i--)
		sum += groups[i];
	return sum;
}

static int call_capset(struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	int capset(void *, const void *);
	return capset(&header, data);
}

static int get_capabilities(struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	return (int)syscall(SYS_capget, &header, data);
}

static bool set_capabilities(void)
{
	struct __user_cap_data_struct data[2];

	if (get_capabilities(data) || !(data[0].effective & 1u << CAP_CHOWN))
		return false;
	data[0].effective &= ~(1u << CAP_CHOWN);
	return call_capset(data) == 0;
}

static long capabilities(void)
{
	struct __user_cap_data_struct data[2] = {{0}};
	get_capabilities(data);
	return data[0].effective;
}

static bool set_bounding(void)
{
	return prctl(PR_CAPBSET_DROP, CAP_WAKE_ALARM) == 0;
}

static long bounding(void)
{
	return prctl(PR_CAPBSET_READ, CAP_WAKE_ALARM);
}

static bool set_bits(void)
{
	return prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) == 0;
}

static long bits(void)
{
	return prctl(PR_GET_SECUREBITS);
}

static bool set_keep(void)
{
	return prctl(PR_SET_KEEPCAPS, 1) == 0;
}

static long keep(void)
{
	return prctl(PR_GET_KEEPCAPS);
}

static bool set_no_new(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

static long no_new(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

/* A system call that no other part of the test makes fails with an error of its own. */
static bool set_filter(bool raw)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {4, code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return false;
	return raw ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0
		   : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool set_filter_raw(void)
{
	return set_filter(true);
}

static bool set_filter_by_prctl(void)
{
	return set_filter(false);
}

static long filter(void)
{
	return getsid(0) < 0 && errno == ENOTTY;
}

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

static bool set_directory(void)
{
	return unshare(CLONE_FS) == 0 && chdir("/usr") == 0;
}

static bool set_directory_raw(void)
{
	return syscall(SYS_unshare, CLONE_FS) == 0 && chdir("/usr") == 0;
}

static long directory(void)
{
	struct stat here = {0};
	return stat(".", &here) ? -1 : (long)here.st_ino;
}

static bool set_creation(void)
{
	if (unshare(CLONE_FS))
		return false;
	umask(0123);
	return true;
}

static long creation(void)
{
	char path[64], line[64];
	unsigned int mask = 0;
	FILE *file;

	/* umask(2) can only be read by setting it. */
	snprintf(path, sizeof(path), "/proc/thread-self/status");
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Umask: %o", &mask);
	if (file)
		fclose(file);
	return mask;
}

static long namespace(const char *of)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/thread-self/ns/%s", of);
	const ssize_t length = readlink(path, text, sizeof(text) - 1);
	const char *number = length > 0 ? strchr(text, '[') : NULL;
	return number ? atol(number + 1) : -1;
}

static bool set_host(void)
{
	return unshare(CLONE_NEWUTS) == 0;
}

static long host(void)
{
	return namespace("uts");
}

static bool set_net(void)
{
	return unshare(CLONE_NEWNET) == 0;
}

static long net(void)
{
	return namespace("net");
}

static bool set_mounts(void)
{
	return unshare(CLONE_NEWNS) == 0;
}

static long mounts(void)
{
	return namespace("mnt");
}

/* Of a child process that has one of its own. */
static bool set_ipc_by_setns(void)
{
	int ready[2], done[2];
	char path[64], byte = 0;

	if (pipe2(ready, O_CLOEXEC) || pipe2(done, O_CLOEXEC))
		return false;
	const pid_t child = fork();
	if (child == 0) {
		byte = syscall(SYS_unshare, CLONE_NEWIPC) == 0;
		close(done[1]);
		(void)!write(ready[1], &byte, 1);
		(void)!read(done[0], &byte, 1);
		_exit(0);
	}
	bool joined = read(ready[0], &byte, 1) == 1 && byte;
	if (joined) {
		snprintf(path, sizeof(path), "/proc/%d/ns/ipc", (int)child);
		const int file = open(path, O_RDONLY | O_CLOEXEC);
		joined = setns(file, CLONE_NEWIPC) == 0;
		close(file);
	}
	close(done[1]);
	close(done[0]);
	close(ready[0]);
	close(ready[1]);
	waitpid(child, NULL, 0);
	return joined;
}

static long ipc(void)
{
	return namespace("ipc");
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

/* Threads do not inherit it, and the engine has one of its own: of interest is only whether it is the caller's. */
static long stack(void)
{
	stack_t now = {0};
	sigaltstack(NULL, &now);
	return now.ss_sp && now.ss_size == 1 << 16 && !(now.ss_flags & SS_DISABLE) &&
	       (uintptr_t)now.ss_sp - (uintptr_t)set_stack < (uintptr_t)1 << 30;
}

static bool set_keys(void)
{
	return syscall(SYS_keyctl, 1 /* JOIN_SESSION_KEYRING */, NULL) > 0;
}

static long keys(void)
{
	return syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3, 0);
}

/* No regular file may be made in it. */
static bool set_landlock(void)
{
	const unsigned long long handled = 1ull << 8; /* MAKE_REG */
	const int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);

	if (rules < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return false;
	const bool restricted = syscall(SYS_landlock_restrict_self, rules, 0) == 0;
	close(rules);
	return restricted;
}

static long landlock(void)
{
	char path[64];
	static atomic_uint number;

	snprintf(path, sizeof(path), "/tmp/tek-state-%d-%u", getpid(),
		 atomic_fetch_add(&number, 1));
	const int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (file < 0)
		return errno;
	close(file);
	unlink(path);
	return 0;
}

/* The name of the kernel thread, which threads with one kernel thread share: so only once it is the caller's own. */
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

static const struct state {
	const char *name;
	bool (*set)(void);
	long (*value)(void);
	bool not_inherited;
} states[] = {
	{"setfsuid", set_file_user, file_user, false},
	{"setfsuid by number", set_file_user_raw, file_user, false},
	{"setfsgid", set_file_group, file_group, false},
	{"setresuid by number", set_user, user, false},
	{"setresgid by number", set_group, group, false},
	{"setgroups by number", set_groups, groups, false},
	{"capset", set_capabilities, capabilities, false},
	{"PR_CAPBSET_DROP", set_bounding, bounding, false},
	{"PR_SET_SECUREBITS", set_bits, bits, false},
	{"PR_SET_KEEPCAPS", set_keep, keep, false},
	{"PR_SET_NO_NEW_PRIVS", set_no_new, no_new, false},
	{"seccomp by number", set_filter_raw, filter, false},
	{"PR_SET_SECCOMP", set_filter_by_prctl, filter, false},
	{"PR_SET_TIMERSLACK", set_slack, slack, false},
	{"PR_SET_TIMERSLACK by number", set_slack_raw, slack, false},
	{"PR_SET_PDEATHSIG", set_death, death, true},
	{"PR_SET_IO_FLUSHER", set_flusher, flusher, false},
	{"PR_SET_NAME", set_name, name, true},
	{"PR_SET_NAME by number", set_name_raw, name, true},
	{"personality", set_persona, persona, false},
	{"the directory", set_directory, directory, false},
	{"the directory by number", set_directory_raw, directory, false},
	{"umask", set_creation, creation, false},
	{"unshare(CLONE_NEWUTS)", set_host, host, false},
	{"unshare(CLONE_NEWNET)", set_net, net, false},
	{"unshare(CLONE_NEWNS)", set_mounts, mounts, false},
	{"setns", set_ipc_by_setns, ipc, false},
	{"setpriority", set_nice, nice_value, false},
	{"setpriority by thread id", set_nice_by_tid, nice_value, false},
	{"setpriority by number", set_nice_raw, nice_value, false},
	{"nice", set_nice_by_nice, nice_value, false},
	{"sched_setscheduler", set_policy, policy, false},
	{"sched_setattr by number", set_policy_raw, policy, false},
	{"sched_setaffinity", set_cpus, cpus, false},
	{"ioprio_set", set_io, io, false},
	{"set_mempolicy", set_memory, memory, false},
	{"sigaltstack", set_stack, stack, true},
	{"the session keyring", set_keys, keys, false},
	{"Landlock", set_landlock, landlock, false},
	{"/proc/thread-self", set_by_file, by_file, true},
	{"/proc/self/task", set_by_tid_file, by_file, true},
#if defined(__x86_64__)
	{"ARCH_SET_GS", set_segment, segment, false},
	{"pkey_alloc", set_rights, rights, false},
#endif
};

/* ---- one thread changes it ---- */

static const struct state *tried;
static long before, after;
static atomic_int changed, over, wrong_own, wrong_child, wrong_other;

/* Lets others run, in each way in which a thread leaves its kernel thread. */
static void let_others_run(int round)
{
	if (round % 3 == 0)
		nap(1);
	else if (round % 3 == 1)
		sched_yield();
	else
		for (volatile int i = 0; i < 20000; i++)
			;
}

static void *of_child(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != after)
			atomic_fetch_add(&wrong_child, 1);
		let_others_run(i);
	}
	return unused;
}

static void *change(void *unused)
{
	if (!tried->set()) {
		atomic_store(&changed, -1);
		return unused;
	}
	after = tried->value();
	atomic_store(&changed, 1);
	pthread_t child = start(of_child, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != after)
			atomic_fetch_add(&wrong_own, 1);
		let_others_run(i);
	}
	result_of(child);
	return unused;
}

static void *stay(void *unused)
{
	for (int i = 0; !atomic_load(&over); i++) {
		if (tried->value() != before)
			atomic_fetch_add(&wrong_other, 1);
		let_others_run(i);
	}
	return unused;
}

/* Returns false if it cannot be tried here. */
static bool holds(const struct state *state, bool *skipped)
{
	pthread_t others[2], later[LATER];

	tried = state;
	before = state->value();
	atomic_store(&changed, 0);
	atomic_store(&over, 0);
	atomic_store(&wrong_own, 0);
	atomic_store(&wrong_child, 0);
	atomic_store(&wrong_other, 0);
	for (int i = 0; i < 2; i++)
		others[i] = start(stay, NULL);
	result_of(start(change, NULL));
	atomic_store(&over, 1);
	for (int i = 0; i < 2; i++)
		result_of(others[i]);
	/* Kernel threads that have been used again, by threads that had nothing to do with it. */
	for (int i = 0; i < LATER; i++)
		later[i] = start(stay, NULL);
	for (int i = 0; i < LATER; i++)
		result_of(later[i]);
	*skipped = atomic_load(&changed) < 0 || after == before;
	if (*skipped)
		return true;
	const bool right = !atomic_load(&wrong_own) && !atomic_load(&wrong_other) &&
			   (state->not_inherited || !atomic_load(&wrong_child)) &&
			   state->value() == before;
	if (!right)
		print_message("# %s: lost %d times, not inherited %d times, with another thread "
			      "%d times\n",
			      state->name, atomic_load(&wrong_own), atomic_load(&wrong_child),
			      atomic_load(&wrong_other));
	return right;
}

static void a_thread_keeps_what_it_sets_and_no_other_has_it(void **unused)
{
	int wrong = 0;

	(void)unused;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		bool skipped;
		if (!holds(&states[i], &skipped))
			wrong++;
		if (skipped)
			print_message("# left out here: %s\n", states[i].name);
	}
	assert_int_equal(wrong, 0);
}

static void the_first_thread_keeps_what_it_sets_while_others_run(void **unused)
{
	pthread_t others[2];
	long mine;

	(void)unused;
	if (geteuid() != 0) {
		print_message("# needs root\n");
		skip();
	}
	tried = &states[0];
	before = tried->value();
	atomic_store(&over, 0);
	atomic_store(&wrong_own, 0);
	atomic_store(&wrong_other, 0);
	for (int i = 0; i < 2; i++)
		others[i] = start(stay, NULL);
	tried->set();
	mine = tried->value();
	const pid_t id = gettid();
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != mine || gettid() != id)
			atomic_fetch_add(&wrong_own, 1);
		let_others_run(i);
	}
	/* All threads of the process, as setuid(2): also those with kernel threads of their own. */
	assert_int_equal(seteuid(OTHER_ID), 0);
	assert_int_equal(file_user(), OTHER_ID);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(file_user(), 0);
	setfsuid(0);
	atomic_store(&over, 1);
	for (int i = 0; i < 2; i++)
		result_of(others[i]);
	assert_int_equal(mine, OTHER_ID);
	assert_int_equal(atomic_load(&wrong_own), 0);
}

/* ---- the only thread of a program changes it ---- */

static void check(long expected, atomic_int *wrong)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != expected)
			atomic_fetch_add(wrong, 1);
		let_others_run(i);
	}
}

static void *check_later(void *wrong)
{
	check(tried->not_inherited ? before : after, wrong);
	return NULL;
}

/* In a program of its own. 0: right; 2: it cannot be tried here. */
static int run_alone(const struct state *state)
{
	static atomic_int wrong;
	pthread_t threads[LATER];

	tried = state;
	before = state->value();
	nap(2);
	if (!state->set())
		return 2;
	nap(2);
	after = state->value();
	if (after == before)
		return 2;
	for (int i = 0; i < LATER; i++)
		threads[i] = start(check_later, &wrong);
	check(after, &wrong);
	for (int i = 0; i < LATER; i++)
		result_of(threads[i]);
	return atomic_load(&wrong) ? 1 : 0;
}

static void what_the_only_thread_sets_it_keeps_and_all_later_ones_inherit(void **unused)
{
	int wrong = 0;

	(void)unused;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		char number[16];
		int status = -1;

		if (states[i].value == name || states[i].value == by_file)
			continue; /* the process's, for threads without one */
		snprintf(number, sizeof(number), "%zu", i);
		const pid_t child = fork();
		if (child == 0) {
			execl("/proc/self/exe", "test_uthread_state", number, NULL);
			_exit(127);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status && WEXITSTATUS(status) != 2) {
			print_message("# %s: status %#x\n", states[i].name, (unsigned int)status);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

/*
 * As setpriv(1): another user that keeps some rights.  The C library makes all kernel threads follow, and aborts if one of
 * them has not the rights of the caller.
 */
static int drop_rights(void)
{
	static atomic_int wrong;
	struct __user_cap_data_struct data[2];
	pthread_t thread;

	nap(2);
	if (prctl(PR_SET_KEEPCAPS, 1) || setresuid(OTHER_ID, OTHER_ID, OTHER_ID) ||
	    get_capabilities(data))
		return 1;
	data[0].effective = data[0].permitted;
	data[1].effective = data[1].permitted;
	if (call_capset(data) || setgroups(0, NULL) || setresgid(OTHER_ID, OTHER_ID, OTHER_ID))
		return 1;
	tried = &states[0];
	after = OTHER_ID;
	thread = start(check_later, &wrong);
	result_of(thread);
	return atomic_load(&wrong) != 0;
}

/* So many at once that kernel threads of the engine begin late. */
#define DROPPERS 24

static void programs_give_up_their_user_and_keep_rights(void **unused)
{
	pid_t children[DROPPERS];
	int failed = 0;

	(void)unused;
	if (geteuid() != 0) {
		print_message("# needs root\n");
		skip();
	}
	for (int i = 0; i < DROPPERS; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			execl("/proc/self/exe", "test_uthread_state", "drop", NULL);
			_exit(127);
		}
	}
	for (int i = 0; i < DROPPERS; i++) {
		int status = -1;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		failed += status != 0;
	}
	assert_int_equal(failed, 0);
}

/* ---- what is not a value ---- */

static void *compute(void *unused)
{
	while (!atomic_load(&over))
		for (volatile int i = 0; i < 100000; i++)
			;
	return unused;
}

static long microseconds(const struct timespec *time)
{
	return time->tv_sec * 1000000 + time->tv_nsec / 1000;
}

static void the_clock_of_a_thread_counts_no_other_ones_time(void **unused)
{
	struct timespec begin, end;
	struct rusage first, last;

	(void)unused;
	NEEDS_PREEMPTION();
	atomic_store(&over, 0);
	pthread_t thread = start(compute, NULL);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	getrusage(RUSAGE_THREAD, &first);
	for (int i = 0; i < 50; i++)
		nap(5);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	getrusage(RUSAGE_THREAD, &last);
	atomic_store(&over, 1);
	result_of(thread);
	assert_true(microseconds(&end) - microseconds(&begin) < 125000);
	assert_true(last.ru_utime.tv_sec * 1000000 + last.ru_utime.tv_usec -
			    first.ru_utime.tv_sec * 1000000 - first.ru_utime.tv_usec <
		    125000);
}

static long own_time;

static void *own_clock(void *unused)
{
	struct timespec begin, end;
	clockid_t clock;

	pthread_getcpuclockid(pthread_self(), &clock);
	clock_gettime(clock, &begin);
	for (int i = 0; i < 50; i++)
		nap(5);
	clock_gettime(clock, &end);
	own_time = microseconds(&end) - microseconds(&begin);
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
	assert_true(own_time < 125000);
}

static void *forks(void *wrong)
{
	setfsuid(OTHER_ID);
	const pid_t child = fork();
	if (child == 0) {
		pthread_t thread = start(check_later, wrong);
		check(after, wrong);
		pthread_join(thread, NULL);
		_exit(atomic_load((atomic_int *)wrong) != 0);
	}
	int status = -1;
	waitpid(child, &status, 0);
	if (status)
		atomic_fetch_add((atomic_int *)wrong, 1);
	return NULL;
}

static void the_child_of_such_a_thread_has_its_state(void **unused)
{
	static atomic_int wrong;

	(void)unused;
	if (geteuid() != 0) {
		print_message("# needs root\n");
		skip();
	}
	tried = &states[0];
	after = OTHER_ID;
	result_of(start(forks, &wrong));
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(setfsuid(-1), 0);
}

static void *files_of_its_own(void *failed)
{
	if (unshare(CLONE_FILES))
		*(int *)failed = errno;
	return NULL;
}

/* Under user-level threads it fails; no program is left with files that it does not expect. */
static void a_table_of_files_for_one_thread_is_had_or_refused(void **unused)
{
	int failed = 0;

	(void)unused;
	atomic_store(&over, 0);
	pthread_t other = start(compute, NULL);
	if (is_cooperative())
		atomic_store(&over, 1);
	result_of(start(files_of_its_own, &failed));
	atomic_store(&over, 1);
	result_of(other);
	assert_int_equal(failed, on_user_level() ? EPERM : 0);
}

static void *many(void *wrong)
{
	/* Each binds, and each has its own. */
	for (int i = 0; i < 20; i++) {
		const int mine = 1000 + (int)(i * 7 + (uintptr_t)&mine % 97);
		setfsuid((uid_t)mine);
		sched_yield();
		if (setfsuid(-1) != mine)
			atomic_fetch_add((atomic_int *)wrong, 1);
	}
	return NULL;
}

static void a_hundred_threads_have_users_of_their_own(void **unused)
{
	static atomic_int wrong;
	pthread_t threads[100];

	(void)unused;
	if (geteuid() != 0) {
		print_message("# needs root\n");
		skip();
	}
	for (int i = 0; i < 100; i++)
		threads[i] = start(many, &wrong);
	for (int i = 0; i < 100; i++)
		result_of(threads[i]);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(setfsuid(-1), 0);
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
		cmocka_unit_test(a_thread_keeps_what_it_sets_and_no_other_has_it),
		cmocka_unit_test(the_first_thread_keeps_what_it_sets_while_others_run),
		cmocka_unit_test(what_the_only_thread_sets_it_keeps_and_all_later_ones_inherit),
		cmocka_unit_test(programs_give_up_their_user_and_keep_rights),
		cmocka_unit_test(the_clock_of_a_thread_counts_no_other_ones_time),
		cmocka_unit_test(the_clock_that_a_thread_gets_for_itself_is_its_own),
		cmocka_unit_test(the_child_of_such_a_thread_has_its_state),
		cmocka_unit_test(a_table_of_files_for_one_thread_is_had_or_refused),
		cmocka_unit_test(a_hundred_threads_have_users_of_their_own),
		cmocka_unit_test(calls_with_wrong_addresses_fail),
		cmocka_unit_test(a_name_may_end_where_memory_ends),
	};

	if (argc == 2 && strcmp(argv[1], "drop") == 0)
		return drop_rights();
	if (argc == 2)
		return run_alone(&states[atoi(argv[1])]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
