/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library to preload that counts calls under a mutex, as fakeroot does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long calls;

static void count(void)
{
	pthread_mutex_lock(&lock);
	calls++;
	pthread_mutex_unlock(&lock);
}

#define WRAP(type, name, parameters, arguments) \
	type name parameters \
	{ \
		static type(*next) parameters; \
		count(); \
		if (!next) \
			next = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
		return next arguments; \
	}

#define WRAP_OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		static int (*next)(const char *, int, ...); \
		va_list list; \
		va_start(list, flags); \
		int mode = va_arg(list, int); \
		va_end(list); \
		count(); \
		if (!next) \
			next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
		return next(path, flags, mode); \
	}

WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP(int, close, (int fd), (fd))
WRAP(ssize_t, read, (int fd, void *buffer, size_t bytes), (fd, buffer, bytes))
WRAP(ssize_t, write, (int fd, const void *buffer, size_t bytes), (fd, buffer, bytes))
WRAP(ssize_t, readlink, (const char *path, char *buffer, size_t bytes), (path, buffer, bytes))
WRAP(int, fstat, (int fd, struct stat *status), (fd, status))
WRAP(int, fstat64, (int fd, struct stat64 *status), (fd, status))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, mlock, (const void *address, size_t bytes), (address, bytes))
WRAP(int, sched_getaffinity, (pid_t tid, size_t bytes, cpu_set_t *cpus), (tid, bytes, cpus))
WRAP(int, sigaction, (int number, const struct sigaction *act, struct sigaction *old),
     (number, act, old))
