/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exec and spawn. The state of the threads is recorded before the program is replaced. This library
 * is removed from LD_PRELOAD for programs that cannot have it, and for those that are not profiled.
 * libtek.so, which is called after this library (preload/exec.c), removes itself.
 */
#include "base/export.h"
#include "exec/preload_list.h"
#include "exec/target.h"
#include "preload/profile/call.h"
#include "preload/profile/start.h"
#include "profile/file.h"

#include <alloca.h>
#include <errno.h>
#include <unistd.h>

/* One call of the C library. */
struct call {
	enum { BY_PATH, BY_SEARCH, BY_FD, AT, SPAWN, SPAWN_SEARCH } how;
	int fd; /* BY_FD, and the directory of AT */
	const char *path;
	char *const *arguments;
	int flags; /* of AT */
	pid_t *pid;
	const posix_spawn_file_actions_t *actions;
	const posix_spawnattr_t *attr;
};

static struct tek_verdict examine(const struct call *call)
{
	char found[TEK_TARGET_PATH_BYTES];

	switch (call->how) {
	case BY_FD:
		return tek__target_examine_fd(call->fd);
	case AT:
		return call->flags & AT_EMPTY_PATH && !*call->path
			       ? tek__target_examine_fd(call->fd)
			       : tek__target_examine(call->fd, call->path);
	case BY_SEARCH:
	case SPAWN_SEARCH:
		return tek__target_examine(AT_FDCWD,
					   tek__target_search(call->path, found, sizeof(found)));
	default:
		return tek__target_examine(AT_FDCWD, call->path);
	}
}

/* Whether this library is to be in the program. */
static bool comes_along(const struct call *call)
{
	int saved = errno;

	if (!tek_prof__file_is_for(call->how == SPAWN || call->how == SPAWN_SEARCH))
		return false;
	/* The look at the program is one call, for files. */
	struct tek_profile_thread *counted = tek_prof__enter(TEK_PROFILE_FILE, TEK_FRAME);
	enum tek_fit fit = examine(call).fit;
	if (counted)
		tek_prof__leave(counted, TEK_PROFILE_FILE);
	errno = saved;
	return fit == TEK_FITS || fit == TEK_PASSES;
}

static int call_real(const struct call *call, char *const environment[])
{
	switch (call->how) {
	case BY_PATH:
		return REAL(execve)(call->path, call->arguments, environment);
	case BY_SEARCH:
		return REAL(execvpe)(call->path, call->arguments, environment);
	case BY_FD:
		return REAL(fexecve)(call->fd, call->arguments, environment);
	case AT:
		return REAL(execveat)(call->fd, call->path, call->arguments, environment,
				      call->flags);
	case SPAWN:
		return REAL(posix_spawn)(call->pid, call->path, call->actions, call->attr,
					 call->arguments, environment);
	case SPAWN_SEARCH:
		return REAL(posix_spawnp)(call->pid, call->path, call->actions, call->attr,
					  call->arguments, environment);
	}
	return -1;
}

static int start(const struct call *call, char *const environment[])
{
	size_t size = comes_along(call) ? 0 : tek__preload_list_size(environment, NULL);

	if (size)
		environment = tek__preload_list_without(environment, "libtek-profile.so",
							alloca(size));
	return call_real(call, environment);
}

/* In the child of vfork() this looks at threads of the parent, which does no harm. */
static int execute(const struct call *call, char *const environment[])
{
	tek_prof__last();
	tek_prof__file_replaced(true);
	int result = start(call, environment);
	tek_prof__file_replaced(false);
	return result;
}

TEK_EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
	return execute(&(struct call){.how = BY_PATH, .path = path, .arguments = arguments},
		       environment);
}

TEK_EXPORT int execv(const char *path, char *const arguments[])
{
	return execve(path, arguments, __environ);
}

TEK_EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
	return execute(&(struct call){.how = BY_SEARCH, .path = file, .arguments = arguments},
		       environment);
}

TEK_EXPORT int execvp(const char *file, char *const arguments[])
{
	return execvpe(file, arguments, __environ);
}

TEK_EXPORT int fexecve(int fd, char *const arguments[], char *const environment[])
{
	return execute(&(struct call){.how = BY_FD, .fd = fd, .arguments = arguments}, environment);
}

TEK_EXPORT int execveat(int directory, const char *path, char *const arguments[],
			char *const environment[], int flags)
{
	return execute(&(struct call){.how = AT,
				      .fd = directory,
				      .path = path,
				      .arguments = arguments,
				      .flags = flags},
		       environment);
}

/* The calls with a list of arguments that NULL ends, with the environment behind it or not. */
#define EXECUTE_LIST(how_, path_, first, environment_) \
	({ \
		va_list list_; \
		size_t count_ = 1; \
		va_start(list_, first); \
		for (const char *one_ = first; one_; one_ = va_arg(list_, const char *)) \
			count_++; \
		va_end(list_); \
		char **arguments_ = alloca(count_ * sizeof(*arguments_)); \
		va_start(list_, first); \
		arguments_[0] = (char *)first; \
		for (size_t i_ = 1; i_ < count_; i_++) \
			arguments_[i_] = va_arg(list_, char *); \
		char *const *given_ = environment_; \
		va_end(list_); \
		execute(&(struct call){.how = how_, .path = path_, .arguments = arguments_}, \
			given_); \
	})

TEK_EXPORT int execl(const char *path, const char *first, ...)
{
	return EXECUTE_LIST(BY_PATH, path, first, __environ);
}

TEK_EXPORT int execlp(const char *file, const char *first, ...)
{
	return EXECUTE_LIST(BY_SEARCH, file, first, __environ);
}

TEK_EXPORT int execle(const char *path, const char *first, ...)
{
	return EXECUTE_LIST(BY_PATH, path, first, va_arg(list_, char *const *));
}

TEK_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const arguments[],
			   char *const environment[])
{
	return start(&(struct call){.how = SPAWN,
				    .path = path,
				    .arguments = arguments,
				    .pid = pid,
				    .actions = actions,
				    .attr = attr},
		     environment);
}

TEK_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const arguments[],
			    char *const environment[])
{
	return start(&(struct call){.how = SPAWN_SEARCH,
				    .path = file,
				    .arguments = arguments,
				    .pid = pid,
				    .actions = actions,
				    .attr = attr},
		     environment);
}
