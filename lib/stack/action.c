/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/action.h"

#include "base/real.h"
#include "base/registers.h"
#include "stack/config.h"
#include "stack/mask.h"
#include "stack/overflow.h"
#include "threads/process.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MOST_ACTIONS = 32,           /* different ones in the life of a process */
	MASK_BYTES = (NSIG - 1) / 8, /* of a sigset_t what the kernel knows */
	FLAG_RESTORER = 0x04000000,  /* the C library's, in what it reads back */
};

/* One that the program had. Constant once it is ready. */
static struct {
	struct sigaction action;
	bool ready;
} actions[MOST_ACTIONS];
static int claimed;

static bool watched;  /* from the first fitted thread on */
static bool in_place; /* false: the program's own action was put into the kernel */

static void handle(int number, int signal, siginfo_t *info, void *context);

#define ENTRY(n) \
	static void entry_##n(int signal, siginfo_t *info, void *context) \
	{ \
		handle(0x##n, signal, info, context); \
	}
#define ENTRIES(x) \
	x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(a) x(b) x(c) x(d) x(e) x(f) x(10) \
		x(11) x(12) x(13) x(14) x(15) x(16) x(17) x(18) x(19) x(1a) x(1b) x(1c) x(1d) \
			x(1e) x(1f)
ENTRIES(ENTRY)
#define NAME(n) entry_##n,
static void (*const entries[MOST_ACTIONS])(int, siginfo_t *, void *) = {ENTRIES(NAME)};

/* The number of the action behind a handler in the kernel; -1: it is not ours. */
static int number_of(const struct sigaction *kernel)
{
	for (int i = 0; i < MOST_ACTIONS; i++)
		if (kernel->sa_sigaction == entries[i])
			return i;
	return -1;
}

static bool same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_handler == b->sa_handler &&
	       (a->sa_flags | FLAG_RESTORER) == (b->sa_flags | FLAG_RESTORER) &&
	       memcmp(&a->sa_mask, &b->sa_mask, MASK_BYTES) == 0;
}

/* A number for an action of the program; -1: there were too many. */
static int number(const struct sigaction *action)
{
	int most = __atomic_load_n(&claimed, __ATOMIC_RELAXED);

	for (int i = 0; i < most && i < MOST_ACTIONS; i++)
		if (__atomic_load_n(&actions[i].ready, __ATOMIC_ACQUIRE) &&
		    same(&actions[i].action, action))
			return i;
	if (most >= MOST_ACTIONS)
		return -1;
	int own = __atomic_fetch_add(&claimed, 1, __ATOMIC_RELAXED);
	if (own >= MOST_ACTIONS)
		return -1;
	actions[own].action = *action;
	__atomic_store_n(&actions[own].ready, true, __ATOMIC_RELEASE);
	return own;
}

static bool has_no_handler(const struct sigaction *action)
{
	return action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN;
}

/* The action of TEK's that the kernel gets in the place of the program's. */
static struct sigaction ours_for(int own)
{
	const struct sigaction *action = &actions[own].action;
	struct sigaction ours = *action;

	ours.sa_sigaction = entries[own];
	ours.sa_flags = (int)((unsigned int)action->sa_flags & ~SA_RESETHAND) | SA_SIGINFO |
			SA_ONSTACK;
	if (has_no_handler(action)) {
		ours.sa_flags |= SA_RESTART;
		memset(&ours.sa_mask, 0, sizeof(ours.sa_mask));
	}
	return ours;
}

/*
 * A program that ignores SIGSEGV has its children ignore it too, after exec as well, which a
 * handler would undo; and faults kill it all the same.
 */
static int number_if_wanted(const struct sigaction *action)
{
	if (action->sa_handler == SIG_IGN && !tek__stack_config.grow)
		return -1;
	return number(action);
}

/* As the program would read it. */
static struct sigaction seen(const struct sigaction *kernel)
{
	struct sigaction action = *kernel;
	int own = number_of(kernel);

	if (own < 0)
		return action;
	action.sa_handler = actions[own].action.sa_handler;
	action.sa_mask = actions[own].action.sa_mask;
	action.sa_flags = actions[own].action.sa_flags | (kernel->sa_flags & FLAG_RESTORER);
	return action;
}

bool tek__action_is_watched(void)
{
	return __atomic_load_n(&watched, __ATOMIC_ACQUIRE);
}

int tek__action_change(const struct sigaction *act, struct sigaction *old)
{
	struct sigaction before, ours;
	int own = -1;

	if (act) {
		/* A system call may have shown ours to the program, which puts it back. */
		own = number_of(act);
		if (own < 0)
			own = number_if_wanted(act);
		if (own >= 0) {
			ours = ours_for(own);
			act = &ours;
		}
	}
	int result = tek__real.sigaction(SIGSEGV, act, &before);
	if (result == 0 && act)
		__atomic_store_n(&in_place, own >= 0, __ATOMIC_RELAXED);
	if (result == 0 && old)
		*old = seen(&before);
	return result;
}

void tek__action_watch(void)
{
	struct sigaction now, before;

	if (__atomic_load_n(&in_place, __ATOMIC_RELAXED))
		return;
	int saved = errno;
	__atomic_store_n(&watched, true, __ATOMIC_RELEASE);
	__atomic_store_n(&in_place, true, __ATOMIC_RELAXED);
	if (tek__real.sigaction(SIGSEGV, NULL, &now) == 0) {
		/* Again if another thread has set one meanwhile, and we had overwritten it. */
		for (int own; number_of(&now) < 0 && (own = number_if_wanted(&now)) >= 0;
		     now = before) {
			struct sigaction ours = ours_for(own);
			if (tek__real.sigaction(SIGSEGV, &ours, &before) || same(&before, &now))
				break;
		}
		/* Not wanted, or there are too many: what comes later may be another. */
		if (number_of(&now) < 0 && number_if_wanted(&now) < 0)
			__atomic_store_n(&in_place, false, __ATOMIC_RELAXED);
	}
	errno = saved;
}

sighandler_t tek__action_adopt(sighandler_t old)
{
	const struct sigaction before = {.sa_handler = old};
	int own = number_of(&before);

	if (old == SIG_ERR)
		return old;
	__atomic_store_n(&in_place, false, __ATOMIC_RELAXED);
	tek__action_watch();
	return own < 0 ? old : actions[own].action.sa_handler;
}

/* The program's own, as if TEK were not there, until a fitted thread begins. */
static void put_back(const struct sigaction *action)
{
	tek__real.sigaction(SIGSEGV, action, NULL);
	__atomic_store_n(&in_place, false, __ATOMIC_RELAXED);
}

/*
 * The same signal again, once the handler has returned: with the registers of before, and before
 * any instruction.  One that cannot be sent comes by itself if it was a fault.
 */
static void deliver_again(const siginfo_t *info)
{
	pid_t pid = getpid(), tid = (pid_t)syscall(SYS_gettid);

	if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGSEGV, info) && info->si_code <= 0)
		syscall(SYS_tgkill, pid, tid, SIGSEGV);
}

/* Whether the kernel would have the handler run where ours runs. */
static bool is_right_stack(const struct sigaction *action, const ucontext_t *context)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t low = (uintptr_t)context->uc_stack.ss_sp;
	uintptr_t bytes = context->uc_stack.ss_size;

	if (action->sa_flags & SA_ONSTACK || context->uc_stack.ss_flags & SS_DISABLE)
		return true;
	/* On the alternate stack; but the thread may have been there before. */
	return here - low >= bytes || tek__stack_pointer(context) - low < bytes;
}

/* Of the program; a system call has shown what the kernel has. */
static void reset(const struct sigaction *action)
{
	struct sigaction fresh = *action;

	fresh.sa_handler = SIG_DFL;
	tek__action_change(&fresh, NULL);
}

static void hand_over(const struct sigaction *action, int signal, siginfo_t *info, void *context)
{
	if (action->sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (has_no_handler(action) || !is_right_stack(action, context)) {
		int saved = errno;
		put_back(action);
		deliver_again(info);
		errno = saved;
		return;
	}
	if (action->sa_flags & SA_RESETHAND)
		reset(action);
	/* A handler without SA_SIGINFO gets the other arguments too: the kernel does the same. */
	action->sa_sigaction(signal, info, context);
}

/* The program has blocked it, the kernel has not. */
static void act_as_if_blocked(const siginfo_t *info, ucontext_t *context)
{
	int saved = errno;

	if (info->si_code > 0) {
		const struct sigaction fatal = {.sa_handler = SIG_DFL};
		put_back(&fatal);
		deliver_again(info);
	} else {
		tek__mask_keep(info, context);
	}
	errno = saved;
}

static void handle(int number, int signal, siginfo_t *info, void *context)
{
	if (tek__overflow_at(info, context))
		return;
	if (tek__mask_is_hidden())
		act_as_if_blocked(info, context);
	else
		hand_over(&actions[number].action, signal, info, context);
}
