/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each kind of call that blocks a kernel thread, and what ends it. */
#ifndef TESTS_ASIDE_SUPPORT_H
#define TESTS_ASIDE_SUPPORT_H

#include "shared_objects.h"
#include "uthread_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	THREADS = 80, /* more than there are spare kernel threads, of those before */
	WAITS = 40,
	MOST_MS = 8, /* a thread that waits for a kernel thread in vain waits longer */
	NOBODY = 65534,
};

static struct shared *shared;
static int queue, set, file;
static char path[32];
static sem_t gate, other_gate;
static atomic_int begun, ended;

static inline int make(void **state)
{
	(void)state;
	atomic_store(&begun, 0);
	atomic_store(&ended, 0);
	sem_init(&gate, 0, 0);
	sem_init(&other_gate, 0, 0);
	shared = make_shared(WAITS + 1);
	queue = msgget(IPC_PRIVATE, 0666);
	set = semget(IPC_PRIVATE, 1, 0666);
	strcpy(path, "/tmp/tek-test-XXXXXX");
	file = mkstemp(path);
	return queue < 0 || set < 0 || file < 0 || fchmod(file, 0666);
}

static inline int unmake(void **state)
{
	(void)state;
	msgctl(queue, IPC_RMID, NULL);
	semctl(set, 0, IPC_RMID);
	close(file);
	unlink(path);
	return unmake_shared(shared);
}

static struct rlimit limit_before;
static bool was_root;

static inline void allow_kernel_threads(void)
{
	if (was_root)
		assert_int_equal(setresuid(0, 0, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_NPROC, &limit_before), 0);
}

/*
 * From here on this process gets no more kernel threads.  Root has no limit, so it becomes another
 * user.
 */
static inline void forbid_kernel_threads(void)
{
	assert_int_equal(getrlimit(RLIMIT_NPROC, &limit_before), 0);
	const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit_before.rlim_max};

	assert_int_equal(setrlimit(RLIMIT_NPROC, &none), 0);
	was_root = geteuid() == 0;
	if (was_root)
		assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		_exit(0);
	if (child > 0) {
		waitpid(child, NULL, 0);
		allow_kernel_threads();
		print_message("# there is no limit of processes here\n");
		skip();
	}
}

/*
 * An object that threads wait for until the first thread, its holder, releases it for all of them.
 * 0: the thread has had it.
 */
struct kind {
	int (*wait)(void);
	int (*hold)(void);
	int (*release)(void);
};

static inline int mutex_hold(void)
{
	return pthread_mutex_lock(&shared->mutex);
}

static inline int mutex_release(void)
{
	return pthread_mutex_unlock(&shared->mutex);
}

static inline int mutex_wait(void)
{
	return mutex_hold() || mutex_release();
}

static inline int flock_hold(void)
{
	return flock(file, LOCK_EX);
}

static inline int flock_wait(void)
{
	int own = open(path, O_RDWR);
	int result = own < 0 || flock(own, LOCK_EX);
	int error = errno;

	close(own);
	errno = error;
	return result;
}

static const struct kind mutexes = {mutex_wait, mutex_hold, mutex_release};

static inline void *wait_for_one(void *argument)
{
	const struct kind *kind = argument;

	sem_wait(&gate);
	atomic_fetch_add(&begun, 1);
	return kind->wait() ? argument : NULL;
}

static inline void have_threads(pthread_t *threads, const struct kind *kind)
{
	assert_int_equal(kind->hold(), 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(wait_for_one, (void *)kind);
}

/* All of them, with no more kernel threads than exist: fewer, if threads are user-level ones. */
static inline void let_them_wait(void)
{
	forbid_kernel_threads();
	for (int i = 0; i < THREADS; i++)
		sem_post(&gate);
	assert_true(becomes(&begun, THREADS));
	nap(20);
}

static inline void let_them_end(pthread_t *threads, const struct kind *kind)
{
	assert_int_equal(kind->release(), 0);
	for (int i = 0; i < THREADS; i++)
		assert_null(result_of(threads[i]));
	allow_kernel_threads();
}

#endif
