/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/frame.h"

#include "preload/uthread/real.h"
#include "stack/registers.h"
#include "uthread/interrupted.h"

#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USUAL_BYTES 4096

/* Nobody sends it. */
#define TRIAL_SIGNAL SIGSTKFLT

static volatile size_t measured; /* 0: not yet */

static void measure(int number, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;

	(void)number, (void)info;
	measured = (uintptr_t)interrupted->uc_mcontext.TEK_STACK_POINTER -
		   (uintptr_t)__builtin_frame_address(0);
}

void tek__frame_start(void)
{
	const struct sigaction trial = {.sa_sigaction = measure, .sa_flags = SA_SIGINFO};
	const uint64_t bit = 1ull << (TRIAL_SIGNAL - 1);
	struct sigaction programs;
	uint64_t before;

	if (TEK_REAL(sigaction)(TRIAL_SIGNAL, &trial, &programs) != 0)
		return;
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &bit, &before, sizeof(bit));
	syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), TRIAL_SIGNAL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	TEK_REAL(sigaction)(TRIAL_SIGNAL, &programs, NULL);
}

size_t tek__frame_bytes(void)
{
	const size_t most = (size_t)getauxval(AT_MINSIGSTKSZ);

	if (measured)
		return measured;
	return most ? most : USUAL_BYTES;
}
