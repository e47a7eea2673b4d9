/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Users, groups, rights and filters that a thread has for itself. */
#include "uthread_states.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

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

static const struct state states[] = {
	{"setfsuid", set_file_user, file_user, false, false},
	{"setfsuid by number", set_file_user_raw, file_user, false, false},
	{"setfsgid", set_file_group, file_group, false, false},
	{"setresuid by number", set_user, user, false, false},
	{"setresgid by number", set_group, group, false, false},
	{"setgroups by number", set_groups, groups, false, false},
	{"capset", set_capabilities, capabilities, false, false},
	{"PR_CAPBSET_DROP", set_bounding, bounding, false, false},
	{"PR_SET_SECUREBITS", set_bits, bits, false, false},
	{"PR_SET_KEEPCAPS", set_keep, keep, false, false},
	{"PR_SET_NO_NEW_PRIVS", set_no_new, no_new, false, false},
	{"seccomp by number", set_filter_raw, filter, false, false},
	{"PR_SET_SECCOMP", set_filter_by_prctl, filter, false, false},
	{"the session keyring", set_keys, keys, false, false},
	{"Landlock", set_landlock, landlock, false, false},
};

static struct state_list list = {states, sizeof(states) / sizeof(states[0])};

static void the_first_thread_keeps_what_it_sets_while_other_threads_run(void **unused)
{
	pthread_t rest[2];
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
		rest[i] = start(stay, NULL);
	tried->set();
	mine = tried->value();
	const pid_t id = gettid();
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != mine || gettid() != id)
			atomic_fetch_add(&wrong_own, 1);
		yield_to_ready(i);
	}
	/* All threads of the process, as setuid(2): also those with kernel threads of their own. */
	assert_int_equal(seteuid(OTHER_ID), 0);
	assert_int_equal(file_user(), OTHER_ID);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(file_user(), 0);
	setfsuid(0);
	atomic_store(&over, 1);
	for (int i = 0; i < 2; i++)
		result_of(rest[i]);
	assert_int_equal(mine, OTHER_ID);
	assert_int_equal(atomic_load(&wrong_own), 0);
}

/*
 * As setpriv(1): another user that keeps some rights.  The C library makes all kernel threads
 * follow, and aborts if one of them has not the rights of the caller.
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
			execl("/proc/self/exe", program_invocation_short_name, "drop", NULL);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TESTS_OF_STATES(&list),
		cmocka_unit_test(the_first_thread_keeps_what_it_sets_while_other_threads_run),
		cmocka_unit_test(programs_give_up_their_user_and_keep_rights),
		cmocka_unit_test(the_child_of_such_a_thread_has_its_state),
		cmocka_unit_test(a_hundred_threads_have_users_of_their_own),
	};

	if (argc == 2 && strcmp(argv[1], "drop") == 0)
		return drop_rights();
	if (argc == 2)
		return run_alone(&states[atoi(argv[1])]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
