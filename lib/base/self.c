/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/self.h"

#include "base/export.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

TEK_EXPORT __thread struct tek_self_id tek_self_id_ __attribute__((tls_model("initial-exec")));
__thread enum tek_use tek__self_use __attribute__((tls_model("initial-exec")));

/* Before the start and where the kernel cannot clear a page in children: never known. */
static unsigned int no_epoch;
TEK_EXPORT unsigned int *tek_epoch_ = &no_epoch;
static unsigned int last_epoch;

static pid_t ask_kernel(void)
{
	int saved = errno;
	pid_t tid = (pid_t)syscall(SYS_gettid);
	errno = saved;
	return tid;
}

void tek__self_start(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return;
	if (madvise(map, page, MADV_WIPEONFORK)) {
		munmap(map, page);
		return;
	}
	*(unsigned int *)map = last_epoch = 1;
	__atomic_store_n(&tek_epoch_, map, __ATOMIC_RELEASE);
}

/*
 * A child's first look gives its process a number that no forefather had, so that ids
 * learnt before the fork do not count.
 */
unsigned int tek__self_epoch(void)
{
	unsigned int epoch = __atomic_load_n(tek_epoch_, __ATOMIC_RELAXED);

	if (epoch || tek_epoch_ == &no_epoch)
		return epoch;
	unsigned int next = __atomic_add_fetch(&last_epoch, 1, __ATOMIC_RELAXED);
	return __atomic_compare_exchange_n(tek_epoch_, &epoch, next, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED)
		       ? next
		       : epoch;
}

static void learn(pid_t tid)
{
	tek_self_id_.epoch = 0;
	/* A signal handler in between asks for itself. */
	atomic_signal_fence(memory_order_seq_cst);
	tek_self_id_.tid = tid;
	atomic_signal_fence(memory_order_seq_cst);
	tek_self_id_.epoch = tek__self_epoch();
}

pid_t tek__self_ask(void)
{
	pid_t tid = ask_kernel();

	/* A new process has memory of its own, whatever its parent had lent or shared. */
	if (tek_epoch_ != &no_epoch && __atomic_load_n(tek_epoch_, __ATOMIC_RELAXED) == 0)
		tek__self_use = TEK_SELF_OWN;
	if (tek__self_use == TEK_SELF_LENT && tid == tek_self_id_.tid)
		tek__self_use = TEK_SELF_OWN; /* given back */
	if (tek__self_use == TEK_SELF_OWN)
		learn(tid);
	return tid;
}

void tek__self_forget(void)
{
	tek_self_id_.epoch = 0;
	tek__self_use = TEK_SELF_OWN;
}

void tek__self_is(pid_t tid)
{
	learn(tid);
}

void tek__self_lend(bool for_good)
{
	pid_t tid = tek__gettid();

	if (tek__self_use == TEK_SELF_OWN) {
		tek_self_id_.epoch = 0;
		atomic_signal_fence(memory_order_seq_cst);
		tek_self_id_.tid = tid;
	}
	if (tek__self_use != TEK_SELF_SHARED)
		tek__self_use = for_good ? TEK_SELF_SHARED : TEK_SELF_LENT;
}

bool tek__self_is_borrower(void)
{
	return tek__self_use != TEK_SELF_OWN && tek__self_ask() != tek_self_id_.tid;
}
