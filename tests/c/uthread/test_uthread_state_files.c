/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Directories, masks of new files, namespaces and tables of files that a thread has for itself. */
#include "uthread_states.h"

#include <fcntl.h>
#include <sys/stat.h>

static bool set_directory(void)
{
	return unshare(CLONE_FS) == 0 && chdir("/usr") == 0;
}

static bool set_directory_raw(void)
{
	return syscall(SYS_unshare, CLONE_FS) == 0 && chdir("/usr") == 0;
}

static long directory(void)
{
	struct stat here = {0};
	return stat(".", &here) ? -1 : (long)here.st_ino;
}

static bool set_creation(void)
{
	if (unshare(CLONE_FS))
		return false;
	umask(0123);
	return true;
}

static long creation(void)
{
	char path[64], line[64];
	unsigned int mask = 0;
	FILE *file;

	/* umask(2) can only be read by setting it. */
	snprintf(path, sizeof(path), "/proc/thread-self/status");
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Umask: %o", &mask);
	if (file)
		fclose(file);
	return mask;
}

static long namespace(const char *of)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/thread-self/ns/%s", of);
	const ssize_t length = readlink(path, text, sizeof(text) - 1);
	const char *number = length > 0 ? strchr(text, '[') : NULL;
	return number ? atol(number + 1) : -1;
}

static bool set_host(void)
{
	return unshare(CLONE_NEWUTS) == 0;
}

static long host(void)
{
	return namespace("uts");
}

static bool set_net(void)
{
	return unshare(CLONE_NEWNET) == 0;
}

static long net(void)
{
	return namespace("net");
}

static bool set_mounts(void)
{
	return unshare(CLONE_NEWNS) == 0;
}

static long mounts(void)
{
	return namespace("mnt");
}

/* Of a child process that has one of its own. */
static bool set_ipc_by_setns(void)
{
	int ready[2], done[2];
	char path[64], byte = 0;

	if (pipe2(ready, O_CLOEXEC) || pipe2(done, O_CLOEXEC))
		return false;
	const pid_t child = fork();
	if (child == 0) {
		byte = syscall(SYS_unshare, CLONE_NEWIPC) == 0;
		close(done[1]);
		(void)!write(ready[1], &byte, 1);
		(void)!read(done[0], &byte, 1);
		_exit(0);
	}
	bool joined = read(ready[0], &byte, 1) == 1 && byte;
	if (joined) {
		snprintf(path, sizeof(path), "/proc/%d/ns/ipc", (int)child);
		const int file = open(path, O_RDONLY | O_CLOEXEC);
		joined = setns(file, CLONE_NEWIPC) == 0;
		close(file);
	}
	close(done[1]);
	close(done[0]);
	close(ready[0]);
	close(ready[1]);
	waitpid(child, NULL, 0);
	return joined;
}

static long ipc(void)
{
	return namespace("ipc");
}

static const struct state states[] = {
	{"the directory", set_directory, directory, false, false},
	{"the directory by number", set_directory_raw, directory, false, false},
	{"umask", set_creation, creation, false, false},
	{"unshare(CLONE_NEWUTS)", set_host, host, false, false},
	{"unshare(CLONE_NEWNET)", set_net, net, false, false},
	{"unshare(CLONE_NEWNS)", set_mounts, mounts, false, false},
	{"setns", set_ipc_by_setns, ipc, false, false},
};

static struct state_list list = {states, sizeof(states) / sizeof(states[0])};

static void *files_of_its_own(void *failed)
{
	if (unshare(CLONE_FILES))
		*(int *)failed = errno;
	return NULL;
}

/* Under user-level threads it fails; no program is left with files that it does not expect. */
static void a_table_of_files_for_one_thread_is_had_or_refused(void **unused)
{
	int failed = 0;

	(void)unused;
	atomic_store(&over, 0);
	pthread_t other = start(compute, NULL);
	if (is_cooperative())
		atomic_store(&over, 1);
	result_of(start(files_of_its_own, &failed));
	atomic_store(&over, 1);
	result_of(other);
	assert_int_equal(failed, on_user_level() ? EPERM : 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TESTS_OF_STATES(&list),
		cmocka_unit_test(a_table_of_files_for_one_thread_is_had_or_refused),
	};

	if (argc == 2)
		return run_alone(&states[atoi(argv[1])]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
