/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "alloc/lock.h"

#include "base/clock.h"
#include "base/export.h"
#include "base/futex.h"
#include "base/relax.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Spin iterations, about as long as ten operations; and yields before the thread sleeps. */
enum { ITERATIONS = 100, YIELDS = 8 };

/* A sleeper polls the lock again after this time: see tek_alloc__unlock(). */
#define SLEEP_NS 10000000L
/* The same where the kernel does not wake it. */
#define PAUSE_NS 50000L

/*
 * The calling thread's id, and in which process it was learnt: in the child of a fork a thread has
 * another id and the same memory, but for the word *epoch, which the kernel clears there
 * (madvise(2), MADV_WIPEONFORK).  A user-level thread has another id on each thread of the kernel,
 * so an id is kept only while the thread takes and has the lock; else it is 0.
 */
static __thread struct {
	unsigned int tid, epoch;
} self __attribute__((tls_model("initial-exec")));

static unsigned int unknown = 1;
static unsigned int *epoch = &unknown;
static unsigned int last_epoch = 1;
static bool ids_stay; /* each thread's, until a fork */
static struct tek_alloc_lock *the_lock;

/* Value of *epoch while a thread of a child begins it: no thread has queried its id then. */
#define BEGINS UINT_MAX

/*
 * In a child, called by the first thread to need the lock, which may not be the only one. A lock of
 * the parent's threads is freed; one that this thread holds itself, in a signal handler, stays
 * locked.
 */
static void begin_child(void)
{
	const uint64_t all = ~UINT64_C(0);
	unsigned int nobody = 0;
	uint64_t before;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	if (__atomic_compare_exchange_n(epoch, &nobody, BEGINS, false, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE)) {
		const unsigned int holder = the_lock->word & FUTEX_TID_MASK;
		if (holder && holder == self.tid) {
			the_lock->word = (unsigned int)syscall(SYS_gettid);
		} else {
			the_lock->was_left |= holder != 0;
			the_lock->word = 0;
		}
		__atomic_store_n(epoch, ++last_epoch, __ATOMIC_RELEASE);
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	while (__atomic_load_n(epoch, __ATOMIC_ACQUIRE) == BEGINS)
		syscall(SYS_sched_yield);
}

/* A seccomp filter may kill for system calls that malloc(3) of the C library does not make. */
static atomic_bool is_confined;

static unsigned int get_tid(void)
{
	clockid_t clock;

	/* The C library has it in this number. */
	if (atomic_load_explicit(&is_confined, memory_order_relaxed) &&
	    pthread_getcpuclockid(pthread_self(), &clock) == 0)
		return (unsigned int)tek__tid_of_cpu_clock(clock);
	return (unsigned int)syscall(SYS_gettid);
}

__attribute__((cold, noinline)) static unsigned int ask_kernel(void)
{
	const unsigned int now = __atomic_load_n(epoch, __ATOMIC_RELAXED);

	if (now == 0 || now == BEGINS)
		begin_child();
	const unsigned int tid = get_tid();
	self.tid = tid;
	self.epoch = ids_stay ? *epoch : 0;
	return tid;
}

static unsigned int own_tid(void)
{
	const unsigned int now = __atomic_load_n(epoch, __ATOMIC_RELAXED);
	return __builtin_expect(now && self.epoch == now, 1) ? self.tid : ask_kernel();
}

/*
 * User-level threads go from one thread of the kernel to another, and take their thread-local
 * storage along.
 */
static int is_engine(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	return info->dlpi_name && strstr(info->dlpi_name, "libtek-uthread") != NULL;
}

/* Where the kernel does not clear the word. */
static void clear_epoch(void)
{
	__atomic_store_n(epoch, 0, __ATOMIC_RELAXED);
}

void tek_alloc__lock_start(struct tek_alloc_lock *lock)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	the_lock = lock;
	/* An emulator may say yes to whatever it is advised. */
	if (map != MAP_FAILED && madvise(map, page, -1) && !madvise(map, page, MADV_WIPEONFORK)) {
		*(unsigned int *)map = last_epoch;
		__atomic_store_n(&epoch, map, __ATOMIC_RELEASE);
	} else {
		if (map != MAP_FAILED)
			munmap(map, page);
		pthread_atfork(NULL, NULL, clear_epoch);
	}
	ids_stay = !dl_iterate_phdr(is_engine, NULL);
}

/*
 * Acquires: synchronises with the compare-and-swap that releases the word, or in the slow path,
 * where the kernel writes our tid into it, with the release before the system call of the thread
 * that handed it over.
 */
static bool take(struct tek_alloc_lock *lock, unsigned int tid)
{
	unsigned int nobody = 0;
	return __atomic_compare_exchange_n(&lock->word, &nobody, tid, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/*
 * The lock is held. A real-time thread goes to the kernel soon, so that its wait is known there.
 * Ordinary threads may outnumber the CPUs, and while one sleeps each hand-over costs a context
 * switch. So they first yield to the holder and to the sleepers.
 */
static bool spin(struct tek_alloc_lock *lock, unsigned int tid)
{
	if (atomic_load_explicit(&is_confined, memory_order_relaxed))
		return take(lock, tid);
	const long policy = syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK;
	const bool is_ordinary = policy == SCHED_OTHER || policy == SCHED_BATCH ||
				 policy == SCHED_IDLE;
	const unsigned int iterations = is_ordinary ? ITERATIONS * (YIELDS + 1) : ITERATIONS;

	for (unsigned int iteration = 1; iteration <= iterations; iteration++) {
		const unsigned int word = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
		if (word == 0 && take(lock, tid))
			return true;
		if (word & FUTEX_WAITERS && !is_ordinary)
			return false;
		tek__relax_cpu();
		if (iteration % ITERATIONS == 0 && is_ordinary)
			syscall(SYS_sched_yield);
	}
	return false;
}

/* By libtek.so, before a filter is installed. */
TEK_EXPORT void tek_alloc_is_confined(void)
{
	atomic_store_explicit(&is_confined, true, memory_order_relaxed);
}

/* 0, or an error number. */
static int sleep_for(struct tek_alloc_lock *lock)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until); /* which is this call's clock */
	until.tv_nsec += SLEEP_NS;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	if (syscall(TEK_SYS_FUTEX, &lock->word, FUTEX_LOCK_PI_PRIVATE, 0, &until, NULL, 0))
		return errno;
	return 0;
}

/* Not nanosleep(3), at which a thread can be cancelled. */
static void pause_for_a_while(void)
{
	static atomic_uint never;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += PAUSE_NS;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	tek__futex_wait(&never, 0, &until);
}

__attribute__((cold, noinline)) static bool wait_for(struct tek_alloc_lock *lock, unsigned int tid)
{
	const int saved = errno;
	bool taken = false;

	while (!taken && (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) & FUTEX_TID_MASK) != tid) {
		taken = spin(lock, tid);
		if (taken)
			break;
		const int error = sleep_for(lock);
		taken = error == 0;
		if (taken)
			(void)__atomic_load_n(&lock->word, __ATOMIC_ACQUIRE);
		else if (error != EINTR && error != EAGAIN && error != ETIMEDOUT &&
			 !(taken = take(lock, tid)))
			/* A system without PI futexes, such as an emulator; or see below. */
			pause_for_a_while();
	}
	errno = saved;
	return taken;
}

bool tek_alloc__lock(struct tek_alloc_lock *lock)
{
	const unsigned int tid = own_tid();
	return __builtin_expect(take(lock, tid), 1) || wait_for(lock, tid);
}

/*
 * The child of a vfork(2) has its parent's memory, thread-local storage included, and so takes the
 * lock as its parent. The kernel refuses its hand-over to sleepers: they wake by their timeout
 * (SLEEP_NS). Until all have done so, the kernel refuses new sleepers, which poll instead.
 */
void tek_alloc__unlock(struct tek_alloc_lock *lock)
{
	if (!ids_stay)
		self.tid = 0;
	/* The caller's tid; only threads that go to sleep change the word. */
	unsigned int word = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);

	if (!(word & FUTEX_WAITERS) &&
	    __atomic_compare_exchange_n(&lock->word, &word, 0, false, __ATOMIC_RELEASE,
					__ATOMIC_RELAXED))
		return;
	/* The kernel hands it over, behind this release. */
	const int saved = errno;
	__atomic_fetch_or(&lock->word, 0, __ATOMIC_RELEASE);
	if (syscall(SYS_futex, &lock->word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0))
		__atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
	errno = saved;
}
