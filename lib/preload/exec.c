/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The exec family.  All of it ends in execute(): the C library's own functions
 * do not call each other through symbols that we could replace.
 */
#include "base/export.h"
#include "base/real.h"
#include "exec/preload_list.h"
#include "preload/host.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <unistd.h>

/* One exec call of the C library. */
struct call {
	enum { BY_PATH, BY_SEARCH, BY_FD, AT } how;
	int fd; /* BY_FD, and the directory of AT */
	const char *path;
	char *const *arguments;
	char *const *environment;
	int flags; /* of AT */
};

static int call_real(const struct call *call, char *const environment[])
{
	switch (call->how) {
	case BY_PATH:
		return tek__real.execve(call->path, call->arguments, environment);
	case BY_SEARCH:
		return tek__real.execvpe(call->path, call->arguments, environment);
	case BY_FD:
		return tek__real.fexecve(call->fd, call->arguments, environment);
	case AT:
		return tek__real.execveat(call->fd, call->path, call->arguments, environment,
					  call->flags);
	}
	return -1;
}

/*
 * Examines the kind of the program. *runs: it will probably run, because there is such a file and
 * it may be executed.
 */
static struct tek_verdict examine(const struct call *call, bool *runs)
{
	char found[TEK_TARGET_PATH_BYTES];
	const char *path = call->path;
	int directory = AT_FDCWD;

	*runs = true;
	if (call->how == BY_FD || (call->how == AT && call->flags & AT_EMPTY_PATH && !*path))
		return tek__target_examine_fd(call->fd);
	if (call->how == AT)
		directory = call->fd;
	if (call->how == BY_SEARCH)
		path = tek__target_search(path, found, sizeof(found));
	*runs = faccessat(directory, path, X_OK, AT_EACCESS) == 0;
	return tek__target_examine(directory, path);
}

static int execute(const struct call *call)
{
	char *const *environment = call->environment;

	if (!TEK_HOST(start)())
		return call_real(call, environment);
	int saved = errno;
	bool runs = false;
	/* The filter holds for the next program, too: it begins without TEK. */
	struct tek_verdict verdict = TEK_HOST(is_confined)()
					     ? (struct tek_verdict){.fit = TEK_DISTURBS}
					     : examine(call, &runs);
	TEK_HOST(exec_name)(call->path, verdict);
	const char *other = verdict.fit == TEK_CROSSES ? tek__target_sibling() : NULL;
	if (other)
		TEK_HOST(exec_name_lacking)(call->path, environment, other);
	size_t size = verdict.fit == TEK_CROSSES || verdict.fit == TEK_DISTURBS
			      ? tek__preload_list_size(environment, other)
			      : 0;
	if (size)
		environment = tek__preload_list_exchange(environment, other, alloca(size));
	bool stepped_out = TEK_HOST(exec_step_out)();
	if (runs)
		TEK_HOST(exec_hide_table)();
	errno = saved;

	int result = call_real(call, environment);

	saved = errno;
	if (runs)
		TEK_HOST(exec_show_table)();
	if (stepped_out)
		TEK_HOST(exec_step_in)();
	errno = saved;
	return result;
}

TEK_EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
	return execute(&(struct call){
		.how = BY_PATH, .path = path, .arguments = arguments, .environment = environment});
}

TEK_EXPORT int execv(const char *path, char *const arguments[])
{
	return execve(path, arguments, __environ);
}

TEK_EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
	return execute(&(struct call){.how = BY_SEARCH,
				      .path = file,
				      .arguments = arguments,
				      .environment = environment});
}

TEK_EXPORT int execvp(const char *file, char *const arguments[])
{
	return execvpe(file, arguments, __environ);
}

TEK_EXPORT int fexecve(int fd, char *const arguments[], char *const environment[])
{
	return execute(&(struct call){.how = BY_FD,
				      .fd = fd,
				      .path = "(file descriptor)",
				      .arguments = arguments,
				      .environment = environment});
}

TEK_EXPORT int execveat(int directory, const char *path, char *const arguments[],
			char *const environment[], int flags)
{
	return execute(&(struct call){.how = AT,
				      .fd = directory,
				      .path = path,
				      .arguments = arguments,
				      .environment = environment,
				      .flags = flags});
}

/* The calls with a list of arguments that NULL ends, with the environment behind it or not. */
static int execute_list(struct call call, const char *first, va_list list, bool with_environment)
{
	size_t count = 1;
	va_list counted;

	va_copy(counted, list);
	for (const char *argument = first; argument; argument = va_arg(counted, const char *))
		count++;
	va_end(counted);

	char **arguments = alloca(count * sizeof(*arguments));
	const char *argument = first;
	for (size_t i = 0; i < count - 1; i++, argument = va_arg(list, const char *))
		arguments[i] = (char *)argument;
	arguments[count - 1] = NULL;
	call.arguments = arguments;
	call.environment = with_environment ? va_arg(list, char *const *) : __environ;
	return execute(&call);
}

TEK_EXPORT int execl(const char *path, const char *first, ...)
{
	va_list list;
	va_start(list, first);
	int result = execute_list((struct call){.how = BY_PATH, .path = path}, first, list, false);
	va_end(list);
	return result;
}

TEK_EXPORT int execlp(const char *file, const char *first, ...)
{
	va_list list;
	va_start(list, first);
	int result = execute_list((struct call){.how = BY_SEARCH, .path = file}, first, list,
				  false);
	va_end(list);
	return result;
}

TEK_EXPORT int execle(const char *path, const char *first, ...)
{
	va_list list;
	va_start(list, first);
	int result = execute_list((struct call){.how = BY_PATH, .path = path}, first, list, true);
	va_end(list);
	return result;
}
