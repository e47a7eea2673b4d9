/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The next functions of the names that libtek-profile.so takes: the C library's, or those of
 * another library that is preloaded behind it.  Found by the constructor, or by the first call
 * where that comes before it, when there is one thread.
 */
#ifndef TEK_PRELOAD_PROFILE_REAL_H
#define TEK_PRELOAD_PROFILE_REAL_H

#include "base/export.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* vfscanf() as the headers rename it. */
int __isoc99_vfscanf(FILE *stream, const char *format, va_list arguments);
/* Functions that programs built with _FORTIFY_SOURCE call; headers declare them only there. */
int __vprintf_chk(int flag, const char *format, va_list arguments);
int __vfprintf_chk(FILE *stream, int flag, const char *format, va_list arguments);
ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t bytes, off64_t offset, size_t room);
size_t __fread_chk(void *buffer, size_t room, size_t size, size_t count, FILE *stream);
char *__fgets_chk(char *buffer, size_t room, int bytes, FILE *stream);
size_t __fread_unlocked_chk(void *buffer, size_t room, size_t size, size_t count, FILE *stream);
char *__fgets_unlocked_chk(char *buffer, size_t room, int bytes, FILE *stream);
int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room);
ssize_t __recv_chk(int fd, void *buffer, size_t bytes, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buffer, size_t bytes, size_t room, int flags,
		       __SOCKADDR_ARG address, socklen_t *length);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);
void __longjmp_chk(jmp_buf target, int value) __attribute__((noreturn));
/* vfscanf() and vscanf() as C23's headers rename them. */
int __isoc23_vfscanf(FILE *stream, const char *format, va_list arguments);
int __isoc23_vscanf(const char *format, va_list arguments);
int __isoc99_vscanf(const char *format, va_list arguments);
/* Functions that the macros of stdio call where a buffer is empty or full. */
int __uflow(FILE *stream);
int __overflow(FILE *stream, int character);
/* stat() before glibc 2.33. */
int __xstat(int version, const char *path, struct stat *status);
int __lxstat(int version, const char *path, struct stat *status);
int __fxstat(int version, int fd, struct stat *status);
int __xstat64(int version, const char *path, struct stat64 *status);
int __lxstat64(int version, const char *path, struct stat64 *status);
int __fxstat64(int version, int fd, struct stat64 *status);

struct tek_profile_real {
#define FUNCTION(name) __typeof__(&name) name;
#include "preload/profile/functions.h"
#undef FUNCTION
};

extern struct tek_profile_real tek_prof__real __attribute__((visibility("hidden")));
extern bool tek_prof__is_looking __attribute__((visibility("hidden")));
extern bool tek_prof__is_found __attribute__((visibility("hidden")));

/* Finds all; where that is under way, the one at that offset. */
void tek_prof__find_real(size_t at);

/* Whether two functions are of one library. */
bool tek_prof__is_same_library(const void *one, const void *other);

/* REAL(read)(fd, buffer, bytes) */
#define REAL(name) \
	((__builtin_expect(tek_prof__is_found, 1) \
		  ? (void)0 \
		  : tek_prof__find_real(offsetof(struct tek_profile_real, name))), \
	 tek_prof__real.name)

#endif
