/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Objects of the kernel that threads wait for, and threads that do. */
#ifndef TESTS_KERNEL_SUPPORT_H
#define TESTS_KERNEL_SUPPORT_H

#include "uthread_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/syscall.h>

static atomic_int reached, cleaned, handled, returned;
static int queue, set;
static char directory[64], path[80];
static int result, error_number;

static inline int begin_each(void **state)
{
	(void)state;
	atomic_store(&reached, 0);
	atomic_store(&cleaned, 0);
	atomic_store(&handled, 0);
	atomic_store(&returned, 0);
	queue = msgget(IPC_PRIVATE, 0600);
	set = semget(IPC_PRIVATE, 1, 0600);
	strcpy(directory, "/tmp/tek-test-XXXXXX");
	if (queue < 0 || set < 0 || !mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/it", directory);
	return 0;
}

static inline int end_each(void **state)
{
	(void)state;
	msgctl(queue, IPC_RMID, NULL);
	semctl(set, 0, IPC_RMID);
	unlink(path);
	return rmdir(directory);
}

/* A thread that makes this call; it has begun, and most likely waits, when this returns. */
static inline pthread_t waiting(void *(*call)(void *))
{
	pthread_t thread = start(call, NULL);
	assert_true(becomes(&reached, 1));
	nap(20);
	return thread;
}

static inline void clean(void *unused)
{
	(void)unused;
	atomic_fetch_add(&cleaned, 1);
}

static inline void keep(int value)
{
	error_number = errno;
	result = value;
	atomic_store(&returned, 1);
}

static inline int open_it(void)
{
	int file = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(file >= 0);
	return file;
}

static inline void *lock_by_fcntl(void *unused)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int file = open_it();
	pthread_cleanup_push(clean, NULL);
	atomic_store(&reached, 1);
	keep(fcntl(file, F_OFD_SETLKW, &whole));
	pthread_cleanup_pop(0);
	close(file);
	return unused;
}

/* Past the engine: each signal stops a traced process, and so does the engine's tick. */
static inline void block_all_but(int signal)
{
	const uint64_t mask = ~(UINT64_C(1) << (signal - 1));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

static inline void handle(int number)
{
	(void)number;
	atomic_fetch_add(&handled, 1);
}

/* Repeatedly: a handler that runs before the thread waits does not interrupt the call. */
static inline void interrupt_call_of(pthread_t thread)
{
	while (!atomic_load(&returned)) {
		assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
		nap(1);
	}
	result_of(thread);
	assert_int_equal(result, -1);
	assert_int_equal(error_number, EINTR);
	assert_true(atomic_load(&handled) >= 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_each, end_each)

#endif
