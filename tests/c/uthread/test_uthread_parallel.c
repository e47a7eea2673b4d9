/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The first kernel thread that comes to an engine of one: uthread/parallel.h. */
#include "uthread_objects.h"

#include "uthread/guard.h"
#include "uthread/interrupted.h"
#include "uthread/parallel.h"
#include "uthread/preempt.h"
#include "uthread/tick.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define ALONE "workers=1,quantum=50us,foreign"

static tek_uthread_mutex_t mutex;
static tek_uthread_semaphore_t semaphore;
static long long counter;
static atomic_bool stop;
static atomic_uint came;

static unsigned int random_state;

static unsigned int next_random(void)
{
	random_state = random_state * 1103515245 + 12345;
	return random_state >> 16;
}

/* ---- at any moment ---- */

/* Without another atomic operation: only the mutex keeps them apart. */
static void count_once(void)
{
	CHECK(tek_uthread_mutex_lock(&mutex) == 0);
	long long seen = counter;
	__asm__ volatile("" ::: "memory");
	counter = seen + 1;
	CHECK(tek_uthread_mutex_unlock(&mutex) == 0);
}

static void *count_until_stopped(void *argument)
{
	uintptr_t times = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		count_once();
		if (++times % 256 == (uintptr_t)argument)
			tek_uthread_yield();
	}
	return (void *)times;
}

/* No unit of the semaphore is lost or made, whichever threads take them. */
static void *pass_units(void *unused)
{
	(void)unused;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		CHECK(tek_uthread_semaphore_wait(&semaphore) == 0);
		CHECK(tek_uthread_semaphore_post(&semaphore) == 0);
	}
	return NULL;
}

static void *count_as_kernel_thread(void *argument)
{
	uintptr_t times = 20000;

	(void)argument;
	for (uintptr_t i = 0; i < times; i++) {
		count_once();
		CHECK(tek_uthread_semaphore_wait(&semaphore) == 0);
		CHECK(tek_uthread_semaphore_post(&semaphore) == 0);
	}
	atomic_fetch_add(&came, 1);
	return (void *)times;
}

static void come_while_rest_counts(void)
{
	enum { THREADS = 4 };
	tek_uthread_t threads[THREADS], passing[2];
	pthread_t kernel[2];
	long long all = 0;
	void *times;

	CHECK(tek_uthread_semaphore_init(&semaphore, 3) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		threads[i] = begin(count_until_stopped, (void *)i);
	for (int i = 0; i < 2; i++)
		passing[i] = begin(pass_units, NULL);
	CHECK(!tek_ut__parallel());
	work(next_random() % 200000);
	for (int i = 0; i < 2; i++)
		kernel[i] = begin_kernel_thread(count_as_kernel_thread, NULL);
	/* Each of their 20,000 rounds may cost a switch; a hang is found by in_engine(). */
	WAIT_SECONDS_UNTIL(50, atomic_load(&came) == 2);
	CHECK(tek_ut__parallel());
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		all += (long long)(uintptr_t)end_of(threads[i]);
	for (int i = 0; i < 2; i++)
		end_of(passing[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(kernel[i], &times);
		all += (long long)(uintptr_t)times;
	}
	CHECK(counter == all);
	for (int i = 0; i < 3; i++)
		CHECK(tek_uthread_semaphore_trywait(&semaphore) == 0);
	CHECK(tek_uthread_semaphore_trywait(&semaphore) == EAGAIN);
	CHECK(mutex.state_ == 0 && !mutex.first_);
}

static void it_may_come_at_any_moment(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		random_state = (unsigned int)i * 7919;
		in_engine(ALONE, come_while_rest_counts);
	}
}

/* ---- times ---- */

/*
 * Its timeout is the only one.  It comes and goes while one worker begins to wait for it and
 * another worker runs the thread.
 */
static void sleep_again_and_again(void)
{
	for (int i = 0; i < 30000; i++)
		tek_uthread_sleep(next_random() % 5000);
}

static void a_thread_that_sleeps_again_and_again_wakes_each_time(void **state)
{
	(void)state;
	random_state = 1;
	in_engine("workers=2", sleep_again_and_again);
	in_engine("workers=3", sleep_again_and_again);
	in_engine("workers=3,sched=steal", sleep_again_and_again);
}

/* ---- the work of the other threads meanwhile ---- */

/* A kernel thread that takes a lock by an atomic instruction need not ask the engine first. */
static bool has_come_in(void)
{
	return tek_ut__parallel() || !TEK_RESTARTABLE;
}

static void *lock_and_report(void *argument)
{
	CHECK(tek_uthread_mutex_lock(&mutex) == 0);
	CHECK(has_come_in());
	atomic_fetch_add(&came, 1);
	CHECK(tek_uthread_mutex_unlock(&mutex) == 0);
	return argument;
}

static void come_while_nobody_runs(void)
{
	pthread_t kernel = begin_kernel_thread(lock_and_report, NULL);

	WAIT_UNTIL(atomic_load(&came));
	pthread_join(kernel, NULL);
}

static void it_does_not_wait_for_an_idle_engine(void **state)
{
	(void)state;
	in_engine(ALONE, come_while_nobody_runs);
}

static void come_while_one_computes(void)
{
	pthread_t kernel = begin_kernel_thread(lock_and_report, NULL);

	while (!atomic_load_explicit(&came, memory_order_relaxed))
		; /* and never calls the engine */
	pthread_join(kernel, NULL);
}

static void it_does_not_wait_for_one_that_computes(void **state)
{
	(void)state;
	in_engine(ALONE, come_while_one_computes);
}

static int ends[2];

static void *lock_and_write(void *argument)
{
	lock_and_report(argument);
	CHECK(write(ends[1], "", 1) == 1);
	return NULL;
}

static void come_while_one_is_in_the_kernel(void)
{
	char byte;

	CHECK(pipe(ends) == 0);
	pthread_t kernel = begin_kernel_thread(lock_and_write, NULL);
	/* Not known to the engine. */
	CHECK(syscall(SYS_read, ends[0], &byte, 1) == 1);
	CHECK(atomic_load(&came) == 1);
	pthread_join(kernel, NULL);
}

static void it_does_not_wait_for_one_that_the_kernel_holds_up(void **state)
{
	(void)state;
	in_engine(ALONE, come_while_one_is_in_the_kernel);
}

static void come_while_one_must_not_be_interrupted(void)
{
	pthread_t kernel;

	tek_uthread_defer_begin();
	kernel = begin_kernel_thread(lock_and_report, NULL);
	for (uint64_t end = tek__now(CLOCK_MONOTONIC) + 5000000; tek__now(CLOCK_MONOTONIC) < end;) {
		CHECK(!atomic_load(&came) && !tek_ut__parallel());
		count_once();
	}
	tek_uthread_defer_end();
	WAIT_UNTIL(atomic_load(&came));
	pthread_join(kernel, NULL);
}

static void it_waits_for_one_that_defers_preemption(void **state)
{
	(void)state;
	if (!TEK_RESTARTABLE) {
		print_message("# a lock is an atomic instruction here: nobody waits for anybody\n");
		skip();
	}
	in_engine(ALONE, come_while_one_must_not_be_interrupted);
}

/* ---- processes ---- */

static void *fork_and_lock(void *unused)
{
	(void)unused;
	/* Past fork(3) with its handlers: in the child there is no thread that it could ask. */
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	CHECK(child >= 0);
	if (child == 0) {
		count_once();
		_exit(has_come_in() ? 0 : 1);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	atomic_store(&stop, true);
	return NULL;
}

static void fork_in_a_kernel_thread(void)
{
	pthread_t kernel = begin_kernel_thread(fork_and_lock, NULL);

	WAIT_UNTIL(atomic_load(&stop));
	CHECK(!tek_ut__parallel());
	pthread_join(kernel, NULL);
}

static void in_a_child_of_its_own_it_asks_nobody(void **state)
{
	(void)state;
	in_engine(ALONE, fork_in_a_kernel_thread);
}

static void fork_and_come(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		come_while_rest_counts();
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!tek_ut__parallel());
}

static void the_same_in_a_child_of_a_thread(void **state)
{
	(void)state;
	in_engine(ALONE, fork_and_come);
}

static void check_parallel(void)
{
	CHECK(tek_ut__parallel());
}

static void check_alone(void)
{
	CHECK(!tek_ut__parallel());
	run_threads(10, count_until_stopped);
	CHECK(!tek_ut__parallel());
}

static void only_one_kernel_thread_that_is_interrupted_is_alone(void **state)
{
	(void)state;
	atomic_store(&stop, true);
	in_engine("workers=1", check_alone);
	in_engine(ALONE, check_alone);
	in_engine("workers=1,foreign,preempt=off", check_parallel);
	in_engine("workers=1,preempt=klt", check_parallel);
	in_engine("workers=2", check_parallel);
	atomic_store(&stop, false);
}

/* ---- sequences that a handler interrupts ---- */

#if TEK_RESTARTABLE

extern const struct tek_restartable __start_tek_restartable[], __stop_tek_restartable[];

static tek_uthread_mutex_t *in_page; /* that cannot be written */
static uintptr_t faults[2];
static unsigned int fault_count;

/*
 * After the first fault the tick comes as soon as the handler returns: at the instruction that
 * could not be executed.
 */
static void note_fault(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	CHECK(fault_count < 2);
	faults[fault_count++] = tek_ut__interrupted_at(context);
	if (fault_count == 1) {
		atomic_store(&tek_ut__parallel_asked, 1);
		CHECK(tek_ut__tick_send((pid_t)syscall(SYS_gettid)));
	} else {
		CHECK(mprotect(in_page, 4096, PROT_READ | PROT_WRITE) == 0);
	}
}

static bool is_last_of_a_sequence(uintptr_t at)
{
	for (const struct tek_restartable *each = __start_tek_restartable;
	     each < __stop_tek_restartable; each++) {
		if (at == (uintptr_t)&each->begin + (uintptr_t)each->begin + each->bytes)
			return true;
	}
	return false;
}

static void interrupt(int (*function)(tek_uthread_mutex_t *), unsigned int before,
		      unsigned int after)
{
	struct sigaction action = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO};

	/* The C library would not let it be added. */
	const uint64_t tick = TEK_TICK_BIT;
	memcpy(&action.sa_mask, &tick, sizeof(tick));
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	in_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(in_page != MAP_FAILED);
	in_page->state_ = before;
	CHECK(mprotect(in_page, 4096, PROT_READ) == 0);
	CHECK(!tek_ut__parallel());
	CHECK(function(in_page) == 0);
	CHECK(tek_ut__parallel() && fault_count == 2);
	CHECK(in_page->state_ == after);
	/* The sequence that it began alone it did not complete among several threads. */
	CHECK(is_last_of_a_sequence(faults[0]) && !is_last_of_a_sequence(faults[1]));
}

static void interrupt_lock(void)
{
	interrupt(tek_uthread_mutex_lock, 0, 1);
}

static void interrupt_unlock(void)
{
	interrupt(tek_uthread_mutex_unlock, 1, 0);
}

static void a_sequence_begins_again_for_the_one_that_comes(void **state)
{
	(void)state;
	in_engine(ALONE, interrupt_lock);
	in_engine(ALONE, interrupt_unlock);
}

static uintptr_t after_restart(uintptr_t at)
{
	ucontext_t context = {0};

	context.uc_mcontext.gregs[REG_RIP] = (greg_t)at;
	tek_ut__restart_sequence(&context);
	return (uintptr_t)context.uc_mcontext.gregs[REG_RIP];
}

static void a_sequence_that_is_interrupted_begins_again(void **state)
{
	(void)state;
	assert_true(__stop_tek_restartable - __start_tek_restartable > 2);
	atomic_store(&tek_ut__parallel_now, false);
	for (const struct tek_restartable *each = __start_tek_restartable;
	     each < __stop_tek_restartable; each++) {
		const uintptr_t begin = (uintptr_t)&each->begin + (uintptr_t)each->begin;
		/* cmpb $0, tek_ut__parallel_now(%rip) */
		assert_int_equal(*(const unsigned char *)begin, 0x80);
		assert_in_range(each->bytes, 10, 64);
		assert_int_equal(after_restart(begin), begin);
		assert_int_equal(after_restart(begin + 7), begin);
		assert_int_equal(after_restart(begin + each->bytes), begin);
		/* The last instruction has been executed, or is none of the sequence. */
		assert_int_equal(after_restart(begin + each->bytes + 1), begin + each->bytes + 1);
		assert_int_equal(after_restart(begin - 1), begin - 1);
	}
	/* There is nothing to it any more. */
	atomic_store(&tek_ut__parallel_now, true);
	const uintptr_t begin = (uintptr_t)&__start_tek_restartable->begin +
				(uintptr_t)__start_tek_restartable->begin;
	assert_int_equal(after_restart(begin + 7), begin + 7);
}

#else

static void a_sequence_begins_again_for_the_one_that_comes(void **state)
{
	(void)state;
	print_message("# this processor needs none\n");
	skip();
}

static void a_sequence_that_is_interrupted_begins_again(void **state)
{
	(void)state;
	print_message("# this processor needs none\n");
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_may_come_at_any_moment),
		cmocka_unit_test(a_thread_that_sleeps_again_and_again_wakes_each_time),
		cmocka_unit_test(it_does_not_wait_for_an_idle_engine),
		cmocka_unit_test(it_does_not_wait_for_one_that_computes),
		cmocka_unit_test(it_does_not_wait_for_one_that_the_kernel_holds_up),
		cmocka_unit_test(it_waits_for_one_that_defers_preemption),
		cmocka_unit_test(in_a_child_of_its_own_it_asks_nobody),
		cmocka_unit_test(the_same_in_a_child_of_a_thread),
		cmocka_unit_test(only_one_kernel_thread_that_is_interrupted_is_alone),
		cmocka_unit_test(a_sequence_begins_again_for_the_one_that_comes),
		cmocka_unit_test(a_sequence_that_is_interrupted_begins_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
