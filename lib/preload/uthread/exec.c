/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of the exec family.  Handlers end with the program that calls them, a signal that waits to be handled
 * does not: a tick that came just before would kill the next program.  So ticks are ignored from here on,
 * which also drops those that wait.  The C library's functions do not call each other through symbols, so
 * each is here.
 */
#include "preload/uthread/real.h"
#include "uthread/engine.h"
#include "uthread/posix/blocked.h"
#include "uthread/preempt.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* The same each time, so it may be found by several at once. */
static struct sigaction on_tick;

static void stop_ticks(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction before;

	if (!tek__engine_runs() || TEK_REAL(sigaction)(TEK_TICK_SIGNAL, &ignore, &before))
		return;
	if (before.sa_handler != SIG_IGN)
		on_tick = before;
}

/* It is still this program. Returns -1, and errno as it was. */
static int go_on(void)
{
	int error = tek__errno();

	if (tek__engine_runs())
		TEK_REAL(sigaction)(TEK_TICK_SIGNAL, &on_tick, NULL);
	return tek__fail(error);
}

TEK_EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
	stop_ticks();
	TEK_REAL(execve)(path, arguments, environment);
	return go_on();
}

TEK_EXPORT int execv(const char *path, char *const arguments[])
{
	return execve(path, arguments, environ);
}

TEK_EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
	stop_ticks();
	TEK_REAL(execvpe)(file, arguments, environment);
	return go_on();
}

TEK_EXPORT int execvp(const char *file, char *const arguments[])
{
	return execvpe(file, arguments, environ);
}

TEK_EXPORT int fexecve(int file, char *const arguments[], char *const environment[])
{
	stop_ticks();
	TEK_REAL(fexecve)(file, arguments, environment);
	return go_on();
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
TEK_EXPORT int execveat(int directory, const char *path, char *const arguments[],
			char *const environment[], int flags)
{
	stop_ticks();
	TEK_REAL(execveat)(directory, path, arguments, environment, flags);
	return go_on();
}
#endif

/* The calls whose arguments are a list that NULL ends, with the environment behind it or not. */
static int execute_list(bool by_search, const char *path, const char *first, va_list list,
			bool with_environment)
{
	size_t count = 1;
	va_list counted;

	va_copy(counted, list);
	for (const char *argument = first; argument; argument = va_arg(counted, const char *))
		count++;
	va_end(counted);

	/* No malloc(): in the child of vfork(2) the heap is the parent's. */
	char *arguments[count];
	arguments[0] = (char *)(uintptr_t)first;
	for (size_t i = 1; i < count; i++)
		arguments[i] = va_arg(list, char *);
	char *const *environment = with_environment ? va_arg(list, char *const *) : environ;
	return by_search ? execvpe(path, arguments, environment)
			 : execve(path, arguments, environment);
}

TEK_EXPORT int execl(const char *path, const char *argument, ...)
{
	va_list list;

	va_start(list, argument);
	int result = execute_list(false, path, argument, list, false);
	va_end(list);
	return result;
}

TEK_EXPORT int execle(const char *path, const char *argument, ...)
{
	va_list list;

	va_start(list, argument);
	int result = execute_list(false, path, argument, list, true);
	va_end(list);
	return result;
}

TEK_EXPORT int execlp(const char *file, const char *argument, ...)
{
	va_list list;

	va_start(list, argument);
	int result = execute_list(true, file, argument, list, false);
	va_end(list);
	return result;
}
