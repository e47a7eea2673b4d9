/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stacks of other threads, which begin, run and end meanwhile. */
#include "measure_support.h"
#include "rounds.h"

#include "stack/measure.h"
#include "threads/area.h"
#include "threads/process.h"

#include <stdatomic.h>
#include <sys/uio.h>

/* Bytes read of other threads' stacks. */
static size_t read_bytes;

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
				const struct iovec *from, unsigned long count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
				const struct iovec *from, unsigned long count, unsigned long flags)
{
	read_bytes += from->iov_len;
	return __real_process_vm_readv(pid, to, to_count, from, count, flags);
}

/* A thread with a deep past, which another thread measures. */
struct deep {
	struct waiter waiter;
	size_t truth;
};

static void *deep_main(void *argument)
{
	struct deep *deep = argument;
	deep->truth = stack_end() - use_stack(123457);
	return waiter_main(&deep->waiter);
}

static void deep_start(struct deep *deep, void *(*function)(void *), const pthread_attr_t *attr)
{
	deep->waiter.end = false;
	pthread_barrier_init(&deep->waiter.ready, NULL, 2);
	pthread_mutex_init(&deep->waiter.lock, NULL);
	pthread_cond_init(&deep->waiter.changed, NULL);
	assert_int_equal(pthread_create(&deep->waiter.thread, attr, function, deep), 0);
	pthread_barrier_wait(&deep->waiter.ready);
}

static size_t present_pages(uintptr_t end, size_t bytes)
{
	static unsigned char vector[8 * MIB / 4096];
	size_t pages = 0;
	if (mincore((void *)(end - bytes), bytes, vector))
		return 0;
	for (size_t i = 0; i < bytes / 4096; i++)
		pages += vector[i] & 1;
	return pages;
}

/* As the helper thread measures it. */
static struct tek_stack_use measure_other(pthread_t handle)
{
	struct tek_stack_use use = {0};

	assert_true(tek__lock());
	const struct tek_thread *thread = tek__thread_known(handle);
	bool measured = thread && tek__measure_other(&thread->stack, &use);
	tek__unlock();
	assert_true(measured);
	return use;
}

static void another_thread_is_measured_live_and_nothing_becomes_resident(void **state)
{
	(void)state;
	struct tek_stack_info info;
	struct deep deep;
	struct tek_area area;

	run_some_threads();
	deep_start(&deep, deep_main, NULL);
	assert_true(tek__area_of(deep.waiter.thread, &area));
	size_t before = present_pages(area.end, area.end - area.low);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(tek_stack_get(deep.waiter.thread, &info), 0);
		assert_in_range(deep.truth, info.peak_bytes, info.bound_bytes);
		assert_in_range(info.bound_bytes - info.peak_bytes, 0, 4 * KIB);
		assert_int_equal(tek_tid_stack_get(deep.waiter.tid, &info), 0);
		assert_in_range(deep.truth, info.peak_bytes, info.bound_bytes);
		const struct tek_stack_use use = measure_other(deep.waiter.thread);
		assert_int_equal(use.peak_bytes, deep.truth);
		assert_in_range(use.bound_bytes, deep.truth, deep.truth + 4 * KIB);
	}
	assert_int_equal(present_pages(area.end, area.end - area.low), before);
	waiter_end(&deep.waiter);
}

static void a_thread_that_has_ended_or_is_of_another_process_has_no_stack_to_measure(void **state)
{
	(void)state;
	struct tek_stack_info info;
	struct waiter waiter;

	waiter_start(&waiter, NULL);
	waiter_end(&waiter);
	assert_int_equal(tek_tid_stack_get(waiter.tid, &info), ESRCH);
	assert_int_equal(tek_tid_stack_get(getppid(), &info), EPERM);
	assert_int_equal(tek_tid_stack_get(-3, &info), EINVAL);
}

static void *zeros_main(void *argument)
{
	struct deep *deep = argument;
	deep->truth = stack_end() - use_zeros(40 * MIB);
	return waiter_main(&deep->waiter);
}

/* TEK's lock is held meanwhile. */
static void of_megabytes_of_zeros_another_thread_reads_little(void **state)
{
	(void)state;
	struct tek_stack_info info;
	pthread_attr_t attr;
	struct deep deep;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * MIB);
	deep_start(&deep, zeros_main, &attr);
	read_bytes = 0;
	const struct tek_stack_use use = measure_other(deep.waiter.thread);
	assert_in_range(read_bytes, 1, 13 * MIB);
	assert_in_range(deep.truth, use.peak_bytes, use.bound_bytes);
	assert_int_equal(tek_stack_get(deep.waiter.thread, &info), 0);
	assert_in_range(deep.truth, info.peak_bytes, info.bound_bytes);
	assert_in_range(info.bound_bytes, deep.truth, deep.truth + 4 * KIB);
	pthread_attr_destroy(&attr);
	waiter_end(&deep.waiter);
}

static atomic_bool goes_on;
static size_t largest_peak;

static void examine_all(struct tek_thread *thread, void *unused)
{
	struct tek_stack_use use;

	(void)unused;
	if (thread->stack.end && !thread->stack.first && !thread->stack.kind &&
	    tek__measure_other(&thread->stack, &use) && use.peak_bytes > largest_peak)
		largest_peak = use.peak_bytes;
}

static void *examine_all_the_time(void *unused)
{
	while (goes_on) {
		if (!tek__lock())
			abort();
		tek__thread_each(examine_all, NULL);
		tek__unlock();
	}
	return unused;
}

/* It is painted then for the next thread, and nothing of that may count as used. */
static void a_thread_that_is_just_ending_is_not_measured_too_large(void **state)
{
	struct job jobs[] = {{.use = skip_stack, .bytes = 8 * KIB},
			     {.use = skip_stack, .bytes = 12 * KIB}};
	size_t truth = 0;
	pthread_t thread;

	(void)state;
	goes_on = true;
	largest_peak = 0;
	assert_int_equal(pthread_create(&thread, NULL, examine_all_the_time, NULL), 0);
	for (int i = 0, end = rounds(20000); i < end; i++) {
		struct job *job = &jobs[i % 2];
		run(job, NULL);
		truth = job->truth > truth ? job->truth : truth;
	}
	goes_on = false;
	pthread_join(thread, NULL);
	assert_in_range(largest_peak, 1, truth);
}

static void *leave_by_system_call(void *argument)
{
	struct job *job = argument;
	job->truth = stack_end() - job->use(job->bytes);
	job->error = (int)syscall(SYS_gettid);
	syscall(SYS_exit, 0);
	return NULL;
}

static void a_thread_that_left_by_the_system_call_exit_is_measured_when_it_is_missed(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 80 * KIB};
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	assert_int_equal(pthread_create(&thread, &attr, leave_by_system_call, &job), 0);
	do
		sleep_ms(1);
	while (__atomic_load_n(&job.error, __ATOMIC_ACQUIRE) == 0 ||
	       syscall(SYS_tgkill, getpid(), job.error, 0) == 0);
	newest = (struct tek_stack_use){0};
	assert_true(tek__lock());
	assert_null(tek__thread_find_tid(job.error));
	tek__unlock();
	assert_int_equal(newest.peak_bytes, job.truth);
	pthread_attr_destroy(&attr);
}

static atomic_int is_deep;
static bool may_end;

static void *use_unseen(void *truth)
{
	*(size_t *)truth = stack_end() - use_stack(120 * KIB);
	is_deep = 1;
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	return NULL;
}

static void a_stack_that_another_thread_has_by_now_is_not_measured_as_the_gone_one_s(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 20 * KIB};
	pthread_t gone, thread;
	size_t truth;

	assert_int_equal(pthread_create(&gone, NULL, leave_by_system_call, &job), 0);
	pthread_join(gone, NULL);
	assert_int_equal(create_unseen(&thread, use_unseen, &truth), 0);
	while (!is_deep)
		sleep_ms(1);
	newest = (struct tek_stack_use){0};
	assert_true(tek__lock());
	assert_null(tek__thread_find_tid(job.error));
	tek__unlock();
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	join_unseen(thread);
	if (!pthread_equal(thread, gone))
		print_message("# the C library did not use the stack again\n");
	assert_in_range(newest.bound_bytes, 0, job.truth + 4 * KIB);
}

int main(int count, char **arguments)
{
	(void)count;
	measure_in(arguments, "report,period=0");
	if (cannot_measure())
		return 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_thread_is_measured_live_and_nothing_becomes_resident),
		cmocka_unit_test(
			a_thread_that_has_ended_or_is_of_another_process_has_no_stack_to_measure),
		cmocka_unit_test(of_megabytes_of_zeros_another_thread_reads_little),
		cmocka_unit_test(a_thread_that_is_just_ending_is_not_measured_too_large),
		cmocka_unit_test(
			a_thread_that_left_by_the_system_call_exit_is_measured_when_it_is_missed),
		cmocka_unit_test(
			a_stack_that_another_thread_has_by_now_is_not_measured_as_the_gone_one_s),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
