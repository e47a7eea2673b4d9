/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls of the C library that start a process and exec in it, out of our sight. */
#include "base/export.h"
#include "base/real.h"
#include "exec/preload_list.h"
#include "preload/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *,
			   const posix_spawnattr_t *, char *const[], char *const[]);

static int spawn(spawn_function *real, const char *examined, pid_t *pid, const char *path,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
		 char *const arguments[], char *const environment[])
{
	void *memory = NULL;
	struct tek_verdict verdict = TEK_HOST(is_confined)()
					     ? (struct tek_verdict){.fit = TEK_DISTURBS}
					     : tek__target_examine(AT_FDCWD, examined);

	TEK_HOST(exec_name)(examined, verdict);
	const char *other = verdict.fit == TEK_CROSSES ? tek__target_sibling() : NULL;
	if (other)
		TEK_HOST(exec_name_lacking)(examined, environment, other);
	size_t size = verdict.fit == TEK_CROSSES || verdict.fit == TEK_DISTURBS
			      ? tek__preload_list_size(environment, other)
			      : 0;
	if (size) {
		memory = malloc(size);
		if (!memory)
			return ENOMEM;
		environment = tek__preload_list_exchange(environment, other, memory);
	}
	bool stepped_out = TEK_HOST(exec_step_out)();
	int error = real(pid, path, actions, attr, arguments, environment);
	if (stepped_out)
		TEK_HOST(exec_step_in)();
	free(memory);
	return error;
}

TEK_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const arguments[],
			   char *const environment[])
{
	if (!TEK_HOST(start)())
		return tek__real.posix_spawn(pid, path, actions, attr, arguments, environment);
	return spawn(tek__real.posix_spawn, path, pid, path, actions, attr, arguments, environment);
}

TEK_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const arguments[],
			    char *const environment[])
{
	char found[TEK_TARGET_PATH_BYTES];

	if (!TEK_HOST(start)())
		return tek__real.posix_spawnp(pid, file, actions, attr, arguments, environment);
	return spawn(tek__real.posix_spawnp, tek__target_search(file, found, sizeof(found)), pid,
		     file, actions, attr, arguments, environment);
}

TEK_EXPORT int system(const char *command)
{
	bool stepped_out = TEK_HOST(start)() && TEK_HOST(exec_step_out)();
	int status = tek__real.system(command);
	int saved = errno;
	if (stepped_out)
		TEK_HOST(exec_step_in)();
	errno = saved;
	return status;
}

TEK_EXPORT FILE *popen(const char *command, const char *mode)
{
	bool stepped_out = TEK_HOST(start)() && TEK_HOST(exec_step_out)();
	FILE *stream = tek__real.popen(command, mode);
	int saved = errno;
	if (stepped_out)
		TEK_HOST(exec_step_in)();
	errno = saved;
	return stream;
}
