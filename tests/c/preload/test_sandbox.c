/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Filters of seccomp(2) that the kernel refuses: TEK neither runs them nor stands down. */
#include "support.h"

#include "threads/process.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int install_by_prctl(const void *filter)
{
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0, 0) ? errno : 0;
}

static int install_by_number(const void *filter)
{
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) ? errno : 0;
}

static int (*const install[])(const void *filter) = {install_by_prctl, install_by_number};

static void fails_with(int error, const void *filter)
{
	for (size_t i = 0; i < sizeof(install) / sizeof(install[0]); i++) {
		assert_int_equal(install[i](filter), error);
		assert_false(tek__is_confined());
	}
}

static int begin(void **state)
{
	(void)state;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void a_filter_at_a_wrong_address_is_refused(void **state)
{
	(void)state;
	fails_with(EFAULT, (const void *)8);
}

static void steps_at_a_wrong_address_are_refused(void **state)
{
	(void)state;
	fails_with(EINVAL, &(struct sock_fprog){.len = 4, .filter = NULL});
	fails_with(EFAULT, &(struct sock_fprog){.len = 4, .filter = (struct sock_filter *)8});
}

static void steps_that_end_at_a_wrong_address_are_refused(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	(void)state;
	assert_ptr_not_equal(two, MAP_FAILED);
	assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
	fails_with(EFAULT, &(struct sock_fprog){.len = 3, .filter = (void *)(two + page - 16)});
	munmap(two, 2 * page);
}

static void a_filter_of_no_steps_or_too_many_is_refused(void **state)
{
	static struct sock_filter steps[BPF_MAXINSNS + 1];
	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		steps[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	fails_with(EINVAL, &(struct sock_fprog){.len = 0, .filter = steps});
	fails_with(EINVAL, &(struct sock_fprog){.len = BPF_MAXINSNS + 1, .filter = steps});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_filter_at_a_wrong_address_is_refused),
		cmocka_unit_test(steps_at_a_wrong_address_are_refused),
		cmocka_unit_test(steps_that_end_at_a_wrong_address_are_refused),
		cmocka_unit_test(a_filter_of_no_steps_or_too_many_is_refused),
	};
	return cmocka_run_group_tests_name("sandbox", tests, begin, NULL);
}
