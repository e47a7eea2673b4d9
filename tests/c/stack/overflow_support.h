/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that overflow, and handlers of SIGSEGV that note it. */
#ifndef TEK_TESTS_OVERFLOW_SUPPORT_H
#define TEK_TESTS_OVERFLOW_SUPPORT_H

#include "fitted.h"

#include "stack/action.h"

enum { STACK_BYTES = 128 << 10 };

static struct ended ended __attribute__((unused));

static inline void *overflow(void *unused)
{
	(void)unused;
	fit_self(0);
	recurse(ENDLESS);
	return NULL;
}

static inline void *overflow_with_name_and_role(void *unused)
{
	struct tek_attributes attributes = {.role = "gas detection"};
	pthread_setname_np(pthread_self(), "gas");
	if (tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes))
		abort();
	return overflow(unused);
}

static inline int join(pthread_t thread)
{
	pthread_join(thread, NULL);
	return 0;
}

static inline int overflow_in_thread(void)
{
	return join(start_with_stack(STACK_BYTES, overflow_with_name_and_role, NULL));
}

static inline bool within(uint64_t address, const void *function)
{
	return address - (uintptr_t)function < 400;
}

static volatile sig_atomic_t calls __attribute__((unused));
static siginfo_t seen __attribute__((unused));
static volatile bool was_on_alternate_stack __attribute__((unused));
static sigjmp_buf recovery __attribute__((unused));
static const char *guard_page __attribute__((unused));

static inline bool is_on_alternate_stack(void)
{
	stack_t stack;
	return sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_ONSTACK;
}

static inline void leave_well(int number, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;
	bool right = number == SIGSEGV && info->si_code > 0 && is_on_alternate_stack() &&
		     interrupted->uc_stack.ss_size != 0;
	_exit(right && info->si_addr ? 7 : 8);
}

static inline void set(void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
	if (sigaction(SIGSEGV, &action, NULL))
		abort();
}

static inline void *only_fit(void *unused)
{
	(void)unused;
	fit_self(0);
	return NULL;
}

static inline void watch(void)
{
	join(start_with_stack(STACK_BYTES, only_fit, NULL));
	if (!tek__action_is_watched())
		abort();
}

static inline void a_handler(int number)
{
	(void)number;
	calls++;
}

static inline void recover(int number)
{
	(void)number;
	calls++;
	siglongjmp(recovery, 1);
}

#endif
