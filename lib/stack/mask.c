/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/mask.h"

#include "base/real.h"
#include "base/self.h"
#include "stack/action.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MASK_BYTES = (NSIG - 1) / 8 }; /* of a sigset_t what the kernel knows */

/* Whether any thread may have SIGSEGV blocked: else none need ask when it begins. */
static bool was_blocked;

static __thread struct {
	bool active;
	bool hidden; /* the program has blocked it, the kernel has not */
} own __attribute__((tls_model("initial-exec")));

static sigset_t only_segv(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	return set;
}

/* By the kernel, as in a handler of SIGSEGV. */
static bool is_blocked(tek__mask_function *real)
{
	sigset_t now;
	return real(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGSEGV) == 1;
}

void tek__mask_start(void)
{
	was_blocked = is_blocked(tek__c_library.pthread_sigmask);
}

void tek__mask_begin(bool hidden)
{
	const sigset_t segv = only_segv();
	sigset_t before;

	own.active = true;
	own.hidden = hidden;
	if (__atomic_load_n(&was_blocked, __ATOMIC_RELAXED) &&
	    tek__c_library.pthread_sigmask(SIG_UNBLOCK, &segv, &before) == 0 &&
	    sigismember(&before, SIGSEGV) == 1)
		own.hidden = true;
}

bool tek__mask_is_hidden(void)
{
	return own.hidden;
}

/* In a thread with a mask that differs from the kernel's. */
static int change(tek__mask_function *real, int how, const sigset_t *set, sigset_t *old)
{
	const bool hidden = own.hidden, names = set && sigismember(set, SIGSEGV) == 1;
	sigset_t before, changed;

	if (names && (how == SIG_BLOCK || how == SIG_SETMASK) && !is_blocked(real)) {
		sigemptyset(&changed);
		memcpy(&changed, set, MASK_BYTES);
		sigdelset(&changed, SIGSEGV);
		set = &changed;
		own.hidden = true;
		/* One that is sent must come to us: the program's own may have been put back. */
		tek__action_watch();
	} else if (set && ((how == SIG_SETMASK && !names) || (how == SIG_UNBLOCK && names))) {
		own.hidden = false;
	}
	int result = real(how, set, &before);
	if (result == 0 && old) {
		memcpy(old, &before, MASK_BYTES);
		if (hidden)
			sigaddset(old, SIGSEGV);
	}
	return result;
}

int tek__mask_change(tek__mask_function *real, int how, const sigset_t *set, sigset_t *old)
{
	/* A child of vfork() has a mask of its own, but only borrows these variables. */
	if (own.active && !tek__self_is_borrower())
		return change(real, how, set, old);
	if (set && how != SIG_UNBLOCK && sigismember(set, SIGSEGV) == 1)
		__atomic_store_n(&was_blocked, true, __ATOMIC_RELAXED);
	return real(how, set, old);
}

void tek__mask_keep(const siginfo_t *info, ucontext_t *context)
{
	const sigset_t segv = only_segv();
	siginfo_t again = *info;
	pid_t pid = getpid();

	/* From here on it is the kernel that blocks it, also once the handler has returned. */
	tek__c_library.pthread_sigmask(SIG_BLOCK, &segv, NULL);
	sigaddset(&context->uc_sigmask, SIGSEGV);
	own.hidden = false;
	/* A signal that was sent to the process may be meant for a thread that waits for it. */
	if (info->si_code == SI_TKILL)
		syscall(SYS_rt_tgsigqueueinfo, pid, syscall(SYS_gettid), SIGSEGV, &again);
	else
		syscall(SYS_rt_sigqueueinfo, pid, SIGSEGV, &again);
}
