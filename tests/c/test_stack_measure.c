/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How much of a stack was used: the interval contains the truth, whatever the thread does. */
#include "stack_support.h"

#include "ident/process.h"
#include "ident/thread.h"
#include "stack/area.h"
#include "stack/config.h"
#include "stack/kind.h"
#include "stack/measure.h"
#include "stack/present.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <threads.h>

enum { KIB = 1024, MIB = 1024 * KIB };

/* The newest measure of any thread. */
static struct tek_stack_use newest;

bool __real_tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use);
bool __wrap_tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use)
{
	newest = *use;
	return __real_tek__kind_note(thread, use);
}

/* What was learnt of the site of each thread. */
static size_t learnt_bytes;

size_t __wrap_tek__site_learnt_bytes(unsigned short site);
size_t __wrap_tek__site_learnt_bytes(unsigned short site)
{
	(void)site;
	return learnt_bytes;
}

/* No site settles: each thread is measured. */
bool __wrap_tek__site_wants_measure(unsigned short site);
bool __wrap_tek__site_wants_measure(unsigned short site)
{
	(void)site;
	return true;
}

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

struct job {
	uintptr_t (*use)(size_t bytes);
	size_t bytes;
	size_t truth; /* bytes that were used: from the lowest one written to the end */
	struct tek_stack_info live;
	int error;
};

static void *work(void *argument)
{
	struct job *job = argument;
	job->truth = stack_end() - job->use(job->bytes);
	job->error = tek_stack_get(pthread_self(), &job->live);
	return NULL;
}

static void run(struct job *job, const pthread_attr_t *attr)
{
	pthread_t thread;
	newest = (struct tek_stack_use){0};
	assert_int_equal(pthread_create(&thread, attr, work, job), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void assert_right(const struct job *job)
{
	assert_int_equal(job->error, 0);
	assert_in_range(job->truth, job->live.peak_bytes, job->live.bound_bytes);
	assert_in_range(job->truth, newest.peak_bytes, newest.bound_bytes);
}

/* It was written byte by byte, so the number is the truth where that is known at all. */
static void assert_peak_is_right(const struct job *job)
{
	assert_right(job);
	assert_int_equal(job->live.peak_bytes, job->truth);
	assert_int_equal(newest.peak_bytes, job->truth);
}

static void assert_exact(const struct job *job)
{
	assert_peak_is_right(job);
	assert_int_equal(job->live.bound_bytes, job->truth);
	assert_int_equal(newest.bound_bytes, job->truth);
	assert_int_equal(job->live.exact, 1);
	assert_true(newest.flags & TEK_STACK_EXACT);
}

static uintptr_t in_frames(size_t bytes)
{
	return recurse((unsigned int)(bytes / 256));
}

static void deep_frames_are_measured(void **state)
{
	(void)state;
	struct job job = {.use = in_frames, .bytes = 100 * KIB};
	run(&job, NULL);
	assert_right(&job);
	assert_in_range(job.live.bound_bytes - job.live.peak_bytes, 0, 8 * KIB);
}

static void memory_of_alloca_is_measured(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 150 * KIB};
	for (int i = 0; i < 5; i++) {
		run(&job, NULL);
		assert_peak_is_right(&job);
		assert_in_range(job.live.bound_bytes, job.truth, job.truth + 4 * KIB);
	}
}

static void an_array_that_is_hardly_touched_is_measured_to_its_lowest_byte(void **state)
{
	(void)state;
	struct job job = {.use = skip_stack, .bytes = 777 * KIB};
	for (int i = 0; i < 5; i++) {
		run(&job, NULL);
		assert_peak_is_right(&job);
		assert_in_range(job.live.bound_bytes, job.truth, job.truth + 4 * KIB);
	}
}

/* glibc gives the stack of one that has ended to the next. */
static void a_shallow_thread_is_not_measured_with_what_a_deep_one_left(void **state)
{
	(void)state;
	struct job deep = {.use = use_stack, .bytes = 300000};
	for (size_t bytes = 12 * KIB; bytes < 40 * KIB; bytes += 3333) {
		struct job shallow = {.use = use_stack, .bytes = bytes};
		run(&deep, NULL);
		assert_peak_is_right(&deep);
		run(&shallow, NULL);
		assert_peak_is_right(&shallow);
		assert_in_range(shallow.live.bound_bytes, shallow.truth, shallow.truth + 8 * KIB);
	}
}

/* Painted over by us, so that even zeros are seen. */
static void on_a_stack_used_again_the_measure_is_exact(void **state)
{
	(void)state;
	struct job first = {.use = use_stack, .bytes = 10 * KIB};
	for (size_t bytes = 6001; bytes < 9 * KIB; bytes += 777) {
		struct job again = {.use = use_stack, .bytes = bytes};
		run(&first, NULL);
		run(&again, NULL);
		assert_exact(&again);
	}
}

static void *nothing(void *argument)
{
	return argument;
}

static void threads_that_are_not_measured_do_not_spoil_the_next(void **state)
{
	(void)state;
	struct job shallow = {.use = use_stack, .bytes = 9 * KIB};
	pthread_t thread;
	for (int i = 0; i < 3; i++) {
		run(&shallow, NULL);
		assert_peak_is_right(&shallow);
		assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
		pthread_join(thread, NULL);
	}
}

static _Atomic uintptr_t handler_used;

static void handler(int signal)
{
	(void)signal;
	handler_used = use_stack(60 * KIB);
}

static uintptr_t be_interrupted(size_t bytes)
{
	(void)bytes;
	pthread_kill(pthread_self(), SIGUSR1);
	return handler_used;
}

static void a_signal_handler_on_the_stack_is_measured(void **state)
{
	(void)state;
	struct job job = {.use = be_interrupted};
	signal(SIGUSR1, handler);
	run(&job, NULL);
	assert_peak_is_right(&job);
	signal(SIGUSR1, SIG_DFL);
}

static pthread_key_t key;
static size_t destructor_truth;

static void destructor(void *value)
{
	(void)value;
	destructor_truth = stack_end() - use_stack(300000);
}

static void *work_with_key(void *argument)
{
	pthread_setspecific(key, argument);
	return NULL;
}

static void a_destructor_of_thread_specific_data_is_measured(void **state)
{
	(void)state;
	pthread_t thread;
	pthread_key_create(&key, destructor);
	assert_int_equal(pthread_create(&thread, NULL, work_with_key, &key), 0);
	pthread_join(thread, NULL);
	assert_int_equal(newest.peak_bytes, destructor_truth);
	assert_in_range(newest.bound_bytes, destructor_truth, destructor_truth + 4 * KIB);
	pthread_key_delete(key);
}

static void in_exact_mode_the_measure_is_right_to_the_byte(void **state)
{
	(void)state;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * KIB);
	tek__stack_config.exact = true;
	for (size_t bytes = 10001; bytes < 200000; bytes = bytes * 3 / 2 + 1) {
		struct job written = {.use = use_stack, .bytes = bytes};
		struct job skipped = {.use = skip_stack, .bytes = bytes + 99};
		run(&written, &attr);
		assert_exact(&written);
		run(&skipped, &attr);
		assert_exact(&skipped);
	}
	tek__stack_config.exact = false;
	pthread_attr_destroy(&attr);
}

static void the_zone_says_how_much_of_a_stack_is_used(void **state)
{
	(void)state;
	static const struct {
		size_t bytes;
		int zone;
	} cases[] = {{30 * KIB, TEK_STACK_LOW},
		     {100 * KIB, TEK_STACK_NORMAL},
		     {220 * KIB, TEK_STACK_HIGH}};
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * KIB);
	for (size_t i = 0; i < 3; i++) {
		struct job job = {.use = use_stack, .bytes = cases[i].bytes};
		run(&job, &attr);
		assert_int_equal(job.live.zone, cases[i].zone);
	}
	pthread_attr_destroy(&attr);
}

static uintptr_t use_as_fitted(size_t bytes)
{
	assert_true(tek__lock());
	tek__thread_self()->stack.flags |= TEK_STACK_TUNED;
	tek__unlock();
	return use_stack(bytes);
}

static void a_fitted_stack_is_high_only_beyond_what_was_learnt(void **state)
{
	(void)state;
	struct job job = {.use = use_as_fitted, .bytes = 220 * KIB};
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * KIB);
	learnt_bytes = 230 * KIB;
	run(&job, &attr);
	assert_int_equal(job.live.zone, TEK_STACK_NORMAL);
	learnt_bytes = 210 * KIB;
	run(&job, &attr);
	assert_int_equal(job.live.zone, TEK_STACK_HIGH);
	learnt_bytes = 0;
	pthread_attr_destroy(&attr);
}

static uintptr_t use_zeros(size_t bytes)
{
	volatile char *buffer = alloca(bytes);
	for (size_t i = bytes; i-- > 0;)
		buffer[i] = 0;
	return (uintptr_t)buffer;
}

static void zeros_count_in_exact_mode_and_are_within_the_bound_without(void **state)
{
	(void)state;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * KIB);
	struct job job = {.use = use_zeros, .bytes = 50001};
	run(&job, &attr);
	assert_right(&job);
	tek__stack_config.exact = true;
	run(&job, &attr);
	assert_exact(&job);
	tek__stack_config.exact = false;
	pthread_attr_destroy(&attr);
}

/* Memory of the program's own for a stack, filled with `byte` up to the top `dirty` bytes. */
static void run_on_own_stack(struct job *job, char *memory, size_t bytes)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, memory, bytes), 0);
	run(job, &attr);
	pthread_attr_destroy(&attr);
}

static char *new_memory(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void a_stack_of_the_programs_own_is_measured(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 100 * KIB};
	char *memory = new_memory(MIB);
	run_on_own_stack(&job, memory, MIB);
	assert_peak_is_right(&job);
	/* Used again: what is there is not cleaned, and deeper use shows. */
	job.bytes = 50 * KIB;
	run_on_own_stack(&job, memory, MIB);
	assert_right(&job);
	assert_true(newest.flags & TEK_STACK_UNCLEAN);
	job.bytes = 200 * KIB;
	run_on_own_stack(&job, memory, MIB);
	assert_peak_is_right(&job);
	munmap(memory, MIB);
}

static void a_stack_that_its_program_painted_keeps_its_paint_and_is_measured_exactly(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 100 * KIB + 1};
	char *memory = new_memory(MIB);
	memset(memory, 0x5a, MIB);
	run_on_own_stack(&job, memory, MIB);
	assert_exact(&job);
	for (size_t i = 0; i < MIB - job.truth; i++)
		if (memory[i] != 0x5a)
			fail_msg("its paint at %zu was changed", i);
	munmap(memory, MIB);
}

static void with_huge_pages_the_interval_holds_and_the_peak_is_right(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 100 * KIB};
	char *memory = new_memory(8 * MIB);
	char *aligned = (char *)(((uintptr_t)memory + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
	madvise(aligned, 4 * MIB, MADV_HUGEPAGE);
	run_on_own_stack(&job, aligned, 4 * MIB);
	assert_peak_is_right(&job);
	munmap(memory, 8 * MIB);
}

/* A process of its own, whose stacks are all new. */
static int measure_locked(void)
{
	struct job job = {.use = use_stack};
	pthread_t thread;

	if (mlockall(MCL_FUTURE) || pthread_create(&thread, NULL, nothing, NULL))
		return 77;
	pthread_join(thread, NULL);
	for (int i = 0; i < 6; i++) {
		job.bytes = i == 2 ? 120001 : 30 * KIB + 1;
		if (pthread_create(&thread, NULL, work, &job))
			return 2;
		pthread_join(thread, NULL);
		if (newest.peak_bytes != job.truth || newest.bound_bytes != job.truth ||
		    job.live.peak_bytes != job.truth || job.live.bound_bytes != job.truth)
			return 1;
	}
	return 0;
}

/* All pages of a stack that was used before come to be there without a fault of the next thread. */
static int measure_locked_since(void)
{
	struct job job = {.use = use_stack};
	pthread_t thread;

	for (int i = 0; i < 6; i++) {
		job.bytes = i < 4 ? 5 * KIB : i == 4 ? 120001 : 30 * KIB + 1;
		if (i == 3 && mlockall(MCL_CURRENT | MCL_FUTURE))
			return 77;
		if (pthread_create(&thread, NULL, work, &job))
			return 2;
		pthread_join(thread, NULL);
		if (newest.peak_bytes > job.truth || newest.bound_bytes < job.truth)
			return 1;
	}
	/* The last one's stack was painted over: whose it was is known. */
	return newest.bound_bytes == job.truth ? 0 : 3;
}

static int begin_locked_since(void)
{
	execl("/proc/self/exe", "test_stack_measure", "since", NULL);
	return 126;
}

static void a_process_that_locks_its_memory_later_is_measured_rightly(void **state)
{
	(void)state;
	int result = in_child(begin_locked_since);
	if (result == 77) {
		print_message("# RLIMIT_MEMLOCK forbids locking a stack\n");
		skip();
	}
	assert_int_equal(result, 0);
}

static int begin_locked(void)
{
	execl("/proc/self/exe", "test_stack_measure", "locked", NULL);
	return 126;
}

static void in_a_locked_process_the_measure_is_exact(void **state)
{
	(void)state;
	int result = in_child(begin_locked);
	if (result == 77) {
		print_message("# RLIMIT_MEMLOCK forbids locking a stack\n");
		skip();
	}
	assert_int_equal(result, 0);
}

/* pthread_getattr_np(3) leaves out what lies above the program's arguments. */
static uintptr_t first_stack_end(void)
{
	unsigned long low, end = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &low, &end) == 2)
			break;
	fclose(maps);
	return end;
}

static void the_first_thread_is_measured(void **state)
{
	(void)state;
	struct tek_stack_info info;
	struct rlimit limit;
	size_t truth = first_stack_end() - use_stack(500000);

	getrlimit(RLIMIT_STACK, &limit);
	assert_int_equal(tek_stack_get(pthread_self(), &info), 0);
	assert_int_equal(info.peak_bytes, truth);
	assert_in_range(info.bound_bytes, truth, truth + 4 * KIB);
	assert_int_equal(info.stack_bytes, limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur);
}

static void the_first_thread_is_measured_where_its_stack_is_unlimited(void **state)
{
	(void)state;
	struct tek_stack_info info;
	struct rlimit before, limit;

	getrlimit(RLIMIT_STACK, &before);
	limit = before;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_STACK, &limit);
	size_t truth = first_stack_end() - use_stack(600000);
	assert_int_equal(tek_tid_stack_get(0, &info), 0);
	setrlimit(RLIMIT_STACK, &before);
	assert_int_equal(info.peak_bytes, truth);
	assert_in_range(info.bound_bytes, truth, truth + 4 * KIB);
}

/* Of each size and kind of stack the C library's answer and ours. */
static void *compare_areas(void *argument)
{
	bool *same = argument;
	struct tek_area ours, asked;

	*same = tek__area_ask(&asked) && tek__area_of_self(&ours) && ours.low == asked.low &&
		ours.end == asked.end && tek__area_of(pthread_self(), &ours) &&
		ours.low == asked.low && ours.end == asked.end;
	return NULL;
}

static void where_stacks_lie_is_what_the_c_library_says(void **state)
{
	(void)state;
	pthread_attr_t attr;
	pthread_t thread;
	bool same;

	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, NULL, nothing, NULL);
		pthread_join(thread, NULL);
	}
	for (size_t bytes = 64 * KIB; bytes < 20 * MIB; bytes = bytes * 2 + 4096) {
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, bytes);
		pthread_attr_setguardsize(&attr, bytes % (16 * KIB));
		assert_int_equal(pthread_create(&thread, &attr, compare_areas, &same), 0);
		pthread_join(thread, NULL);
		assert_true(same);
		pthread_attr_destroy(&attr);
	}
	struct tek_area main_area;
	assert_true(tek__area_of_self(&main_area));
	assert_int_equal(main_area.end, first_stack_end());
}

/* A thread with a deep past, which others measure. */
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

static void deep_start(struct deep *deep)
{
	deep->waiter.end = false;
	pthread_barrier_init(&deep->waiter.ready, NULL, 2);
	pthread_mutex_init(&deep->waiter.lock, NULL);
	pthread_cond_init(&deep->waiter.changed, NULL);
	assert_int_equal(pthread_create(&deep->waiter.thread, NULL, deep_main, deep), 0);
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

	deep_start(&deep);
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

	deep.waiter.end = false;
	pthread_barrier_init(&deep.waiter.ready, NULL, 2);
	pthread_mutex_init(&deep.waiter.lock, NULL);
	pthread_cond_init(&deep.waiter.changed, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * MIB);
	assert_int_equal(pthread_create(&deep.waiter.thread, &attr, zeros_main, &deep), 0);
	pthread_barrier_wait(&deep.waiter.ready);
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

static void look_at_all(struct tek_thread *thread, void *unused)
{
	struct tek_stack_use use;

	(void)unused;
	if (thread->stack.end && !thread->stack.first && !thread->stack.kind &&
	    tek__measure_other(&thread->stack, &use) && use.peak_bytes > largest_peak)
		largest_peak = use.peak_bytes;
}

static void *look_all_the_time(void *unused)
{
	while (goes_on) {
		if (!tek__lock())
			abort();
		tek__thread_each(look_at_all, NULL);
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
	assert_int_equal(pthread_create(&thread, NULL, look_all_the_time, NULL), 0);
	for (int i = 0; i < 20000; i++) {
		struct job *job = &jobs[i % 2];
		run(job, NULL);
		truth = job->truth > truth ? job->truth : truth;
	}
	goes_on = false;
	pthread_join(thread, NULL);
	assert_in_range(largest_peak, 1, truth);
}

/* 8 pages below its frame, and it leaves it so. */
static uintptr_t forbid_a_page(size_t bytes)
{
	uintptr_t lowest = use_stack(bytes);
	uintptr_t page = ((uintptr_t)__builtin_frame_address(0) & ~4095ul) - 8ul * 4096;

	assert_int_equal(mprotect((void *)page, 4096, bytes & 1 ? PROT_READ : PROT_NONE), 0);
	return lowest;
}

/* A process of its own, whose stacks are all new. */
static int measure_forbidden(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	struct job job;

	for (int i = 0; i < 24; i++) {
		char *memory = i < 12 ? NULL : new_memory(MIB);
		tek__stack_config.exact = i & 4;
		if (i & 8 && mlockall(MCL_CURRENT | MCL_FUTURE))
			break;
		job = (struct job){.use = forbid_a_page, .bytes = (60 + (size_t)i) * KIB + (i & 1)};
		pthread_attr_init(&attr);
		/* New sizes, so that no thread runs into the page that another left. */
		pthread_attr_setstacksize(&attr, (200 + 40 * (size_t)i) * KIB);
		if (memory)
			pthread_attr_setstack(&attr, memory, MIB);
		if (pthread_create(&thread, &attr, work, &job))
			return 2;
		pthread_join(thread, NULL);
		pthread_attr_destroy(&attr);
		if (newest.peak_bytes > job.truth || newest.bound_bytes < job.truth)
			return 1;
	}
	return 0;
}

static int begin_forbidden(void)
{
	execl("/proc/self/exe", "test_stack_measure", "forbidden", NULL);
	return 126;
}

static void a_page_that_the_program_forbids_is_not_touched(void **state)
{
	(void)state;
	assert_int_equal(in_child(begin_forbidden), 0);
}

/* Its own guard page, which was used before. */
static int measure_with_own_guard(void)
{
	struct job job = {.use = use_stack, .bytes = 30 * KIB};
	char *memory = new_memory(MIB);

	memset(memory, 1, 8192);
	mprotect(memory, 4096, PROT_NONE);
	run_on_own_stack(&job, memory, MIB);
	return newest.peak_bytes <= job.truth && newest.bound_bytes >= job.truth ? 0 : 1;
}

static void nor_is_a_guard_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(in_child(measure_with_own_guard), 0);
}

static void each_way_of_asking_the_kernel_gives_the_same(void **state)
{
	(void)state;
	static const unsigned int ways[] = {TEK_PRESENT_SCAN, TEK_PRESENT_PAGEMAP,
					    TEK_PRESENT_MINCORE};
	unsigned int before = tek__present_ways;
	for (size_t i = 0; i < 3; i++) {
		struct job job = {.use = skip_stack, .bytes = 50 * KIB * (i + 1)};
		tek__present_ways = ways[i];
		run(&job, NULL);
		assert_peak_is_right(&job);
		assert_in_range(job.live.bound_bytes, job.truth, job.truth + 4 * KIB);
	}
	tek__present_ways = before;
}

static int measure_in_child(void)
{
	struct job job = {.use = use_stack, .bytes = 70 * KIB};
	pthread_t thread;

	for (int i = 0; i < 4; i++) {
		job.bytes += 10 * KIB;
		if (pthread_create(&thread, NULL, work, &job))
			return 2;
		pthread_join(thread, NULL);
		if (newest.peak_bytes != job.truth || job.live.peak_bytes != job.truth ||
		    newest.bound_bytes > job.truth + 4 * KIB)
			return 1;
	}
	return 0;
}

static void in_the_child_of_a_fork_it_is_the_childs_memory_that_counts(void **state)
{
	(void)state;
	assert_int_equal(in_child(measure_in_child), 0);
}

static void *fork_in_thread(void *argument)
{
	*(int *)argument = in_child(measure_in_child);
	return NULL;
}

static void so_too_where_a_thread_forks(void **state)
{
	(void)state;
	pthread_t thread;
	int result = -1;
	pthread_create(&thread, NULL, fork_in_thread, &result);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
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

/* The C library's own door, past TEK's. */
static int use_unseen(void *truth)
{
	*(size_t *)truth = stack_end() - use_stack(120 * KIB);
	is_deep = 1;
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	return 0;
}

static void a_stack_that_another_thread_has_by_now_is_not_measured_as_the_gone_one_s(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 20 * KIB};
	pthread_t gone;
	size_t truth;
	thrd_t thread;

	assert_int_equal(pthread_create(&gone, NULL, leave_by_system_call, &job), 0);
	pthread_join(gone, NULL);
	assert_int_equal(thrd_create(&thread, use_unseen, &truth), thrd_success);
	while (!is_deep)
		sleep_ms(1);
	newest = (struct tek_stack_use){0};
	assert_true(tek__lock());
	assert_null(tek__thread_find_tid(job.error));
	tek__unlock();
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	thrd_join(thread, NULL);
	if (!pthread_equal(thread, gone))
		print_message("# the C library did not use the stack again\n");
	assert_in_range(newest.bound_bytes, 0, job.truth + 4 * KIB);
}

int main(int count, char **arguments)
{
	if (count > 1)
		return strcmp(arguments[1], "locked") == 0  ? measure_locked()
		       : strcmp(arguments[1], "since") == 0 ? measure_locked_since()
							    : measure_forbidden();
	measure_in(arguments, "report,period=0");
	if (cannot_measure())
		return 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_stacks_lie_is_what_the_c_library_says),
		cmocka_unit_test(deep_frames_are_measured),
		cmocka_unit_test(memory_of_alloca_is_measured),
		cmocka_unit_test(an_array_that_is_hardly_touched_is_measured_to_its_lowest_byte),
		cmocka_unit_test(a_shallow_thread_is_not_measured_with_what_a_deep_one_left),
		cmocka_unit_test(on_a_stack_used_again_the_measure_is_exact),
		cmocka_unit_test(threads_that_are_not_measured_do_not_spoil_the_next),
		cmocka_unit_test(a_signal_handler_on_the_stack_is_measured),
		cmocka_unit_test(a_destructor_of_thread_specific_data_is_measured),
		cmocka_unit_test(in_exact_mode_the_measure_is_right_to_the_byte),
		cmocka_unit_test(the_zone_says_how_much_of_a_stack_is_used),
		cmocka_unit_test(a_fitted_stack_is_high_only_beyond_what_was_learnt),
		cmocka_unit_test(zeros_count_in_exact_mode_and_are_within_the_bound_without),
		cmocka_unit_test(a_stack_of_the_programs_own_is_measured),
		cmocka_unit_test(
			a_stack_that_its_program_painted_keeps_its_paint_and_is_measured_exactly),
		cmocka_unit_test(with_huge_pages_the_interval_holds_and_the_peak_is_right),
		cmocka_unit_test(in_a_locked_process_the_measure_is_exact),
		cmocka_unit_test(a_process_that_locks_its_memory_later_is_measured_rightly),
		cmocka_unit_test(the_first_thread_is_measured),
		cmocka_unit_test(the_first_thread_is_measured_where_its_stack_is_unlimited),
		cmocka_unit_test(another_thread_is_measured_live_and_nothing_becomes_resident),
		cmocka_unit_test(
			a_thread_that_has_ended_or_is_of_another_process_has_no_stack_to_measure),
		cmocka_unit_test(a_page_that_the_program_forbids_is_not_touched),
		cmocka_unit_test(nor_is_a_guard_of_its_own),
		cmocka_unit_test(of_megabytes_of_zeros_another_thread_reads_little),
		cmocka_unit_test(a_thread_that_is_just_ending_is_not_measured_too_large),
		cmocka_unit_test(each_way_of_asking_the_kernel_gives_the_same),
		cmocka_unit_test(in_the_child_of_a_fork_it_is_the_childs_memory_that_counts),
		cmocka_unit_test(so_too_where_a_thread_forks),
		cmocka_unit_test(
			a_thread_that_left_by_the_system_call_exit_is_measured_when_it_is_missed),
		cmocka_unit_test(
			a_stack_that_another_thread_has_by_now_is_not_measured_as_the_gone_one_s),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
