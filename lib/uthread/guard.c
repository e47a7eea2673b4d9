/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/guard.h"

#include "uthread/own.h"
#include "uthread/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * A thread that waits so long for closed guards opens them: the fork may wait for a lock of that
 * thread, in a pthread_atfork(3) handler that runs after ours.
 */
#define PATIENCE_S 1

atomic_uint tek_ut__guards_closed;

/* tek_ut__me() of the thread that has closed them; 0: none. */
static _Atomic uintptr_t forking;

/* The number of kernel threads outside the engine that hold guards, */
static atomic_uint kernel_threads;
/* and the number of guards of the calling one. */
static __thread unsigned int under_guard __attribute__((tls_model("initial-exec")));

__attribute__((cold, noinline)) void tek_ut__guard_wait(atomic_uint *word, unsigned int bit)
{
	for (unsigned int tries = 1; atomic_load_explicit(word, memory_order_acquire) & bit;
	     tries++) {
		/*
		 * Its holder may wait for this very CPU. Not sched_yield(3), which may be the
		 * engine's.
		 */
		if (tries % TEK_SPIN_TRIES == 0)
			syscall(SYS_sched_yield);
		else
			tek_ut__relax();
	}
}

static void open_again(void)
{
	atomic_store(&tek_ut__guards_closed, 0);
	syscall(SYS_futex, &tek_ut__guards_closed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Until they are open; false: the caller itself has closed them. */
static bool wait_until_open(void)
{
	const struct timespec patience = {.tv_sec = PATIENCE_S};

	while (atomic_load(&tek_ut__guards_closed)) {
		if (atomic_load(&forking) == tek_ut__me())
			return false;
		if (syscall(SYS_futex, &tek_ut__guards_closed, FUTEX_WAIT_PRIVATE, 1, &patience,
			    NULL, 0) != 0 &&
		    errno == ETIMEDOUT)
			open_again();
	}
	return true;
}

/* The worker has counted a guard, its first one, and found guards closed. */
__attribute__((cold, noinline)) void tek_ut__guards_await(struct tek_worker *worker)
{
	do {
		atomic_store_explicit(&worker->guards, 0, memory_order_release);
		bool open = wait_until_open();
		atomic_store_explicit(&worker->guards, 1, memory_order_relaxed);
		if (!open)
			return;
		atomic_signal_fence(memory_order_seq_cst);
	} while (atomic_load_explicit(&tek_ut__guards_closed, memory_order_relaxed));
}

__attribute__((cold, noinline)) void tek_ut__guards_count_kernel_thread(void)
{
	if (under_guard++)
		return;
	for (;;) {
		atomic_fetch_add(&kernel_threads, 1);
		if (!atomic_load(&tek_ut__guards_closed))
			return;
		atomic_fetch_sub(&kernel_threads, 1);
		if (!wait_until_open())
			break;
	}
	atomic_fetch_add(&kernel_threads, 1);
}

__attribute__((cold, noinline)) void tek_ut__guards_uncount_kernel_thread(void)
{
	if (!--under_guard)
		atomic_fetch_sub(&kernel_threads, 1);
}

/* All CPUs pass a memory barrier, or have had time to. */
static void pass_barrier(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
		return;
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
		return;
	const struct timespec moment = {.tv_nsec = 1000000};
	syscall(SYS_nanosleep, &moment, NULL);
}

/* Without the calling thread: a kernel thread may fork in a signal handler. */
static bool anybody_under_guard(void)
{
	if (atomic_load(&kernel_threads) != (under_guard ? 1 : 0))
		return true;
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		if (atomic_load_explicit(&tek_ut__workers[i].guards, memory_order_acquire))
			return true;
	}
	return false;
}

static bool is_first_to_fork(void)
{
	uintptr_t nobody = 0;
	return atomic_compare_exchange_strong(&forking, &nobody, tek_ut__me());
}

void tek_ut__guards_enter_and_close(void)
{
	tek_ut__enter();
	if (!tek_ut__parallel())
		return;
	while (!is_first_to_fork()) {
		tek_ut__leave();
		tek_ut__pause();
		tek_ut__enter();
	}
	atomic_store(&tek_ut__guards_closed, 1);
	pass_barrier();
	for (unsigned int tries = 1; anybody_under_guard(); tries++) {
		if (tries % TEK_SPIN_TRIES == 0)
			syscall(SYS_sched_yield);
		else
			tek_ut__relax();
	}
}

void tek_ut__guards_open(void)
{
	if (atomic_load(&forking) != tek_ut__me())
		return;
	open_again();
	atomic_store(&forking, 0);
}

void tek_ut__guards_after_fork(void)
{
	for (unsigned int i = 0; i < TEK_WORKERS_MAX; i++)
		atomic_store(&tek_ut__workers[i].guards, 0);
	atomic_store(&kernel_threads, under_guard ? 1 : 0);
	open_again();
	atomic_store(&forking, 0);
}
