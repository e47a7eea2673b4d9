/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls that may block, by a user-level thread: it waits, its worker does not.
 *
 * Each first tries without blocking. If nothing is ready the thread waits in the engine (events.h)
 * until the kernel reports readiness, and tries again. For events without such a report it waits in
 * the kernel, without its worker (aside.h). Regular files that are not in memory, and calls that
 * are not here, block the kernel thread. Its worker goes to another one after a while (carrier.h).
 *
 * Results, errno and cancellation are those of the C library's functions of the same names:
 * cancellation acts before the call or while it waits, never after it has moved a byte. Signals
 * end a wait as signal(7) specifies; the engine's own never do.
 *
 * All are for user-level threads, outside tek_ut__enter() and tek_ut__leave(); tek_ut__here_self()
 * is not NULL.
 */
#ifndef TEK_UTHREAD_POSIX_BLOCKING_H
#define TEK_UTHREAD_POSIX_BLOCKING_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

/* blocking_file.c */
ssize_t tek_ut__read(int file, void *bytes, size_t size);
ssize_t tek_ut__readv(int file, const struct iovec *vector, int count);
ssize_t tek_ut__write(int file, const void *bytes, size_t size);
ssize_t tek_ut__writev(int file, const struct iovec *vector, int count);

/* blocking_close.c */
int tek_ut__close(int file);
int tek_ut__dup3(int from, int to, int flags);
int tek_ut__dup2(int from, int to);
int tek_ut__close_range(unsigned int first, unsigned int last, int flags);

/* blocking_connection.c */
int tek_ut__accept4(int file, struct sockaddr *address, socklen_t *length, int flags);
int tek_ut__connect(int file, const struct sockaddr *address, socklen_t length);

/* blocking_receive.c */
ssize_t tek_ut__recvfrom(int file, void *bytes, size_t size, int flags, struct sockaddr *address,
			 socklen_t *length);
ssize_t tek_ut__recvmsg(int file, struct msghdr *message, int flags);
int tek_ut__recvmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags,
		     struct timespec *timeout);

/* blocking_send.c */
ssize_t tek_ut__sendto(int file, const void *bytes, size_t size, int flags,
		       const struct sockaddr *address, socklen_t length);
ssize_t tek_ut__sendmsg(int file, const struct msghdr *message, int flags);
int tek_ut__sendmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags);
/*
 * No cancellation point at its start; nor while it waits if `begun`: the call has sent something
 * already.
 */
ssize_t tek_ut__send_all(int file, const struct msghdr *whole, int flags, bool begun);

/* blocking_poll.c: `mask` as of ppoll(2), may be NULL; `timeout` too, for ever. */
int tek_ut__ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout,
		  const sigset_t *mask);
int tek_ut__epoll_pwait(int set, struct epoll_event *events, int most,
			const struct timespec *timeout, const sigset_t *mask);

/* blocking_select.c */
int tek_ut__pselect(int count, fd_set *in, fd_set *out, fd_set *exceptions,
		    const struct timespec *timeout, const sigset_t *mask);
int tek_ut__select(int count, fd_set *in, fd_set *out, fd_set *exceptions, struct timeval *timeout);

/* blocking_time.c: 0 or an error number, as clock_nanosleep(2). */
int tek_ut__clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			    struct timespec *left);
unsigned int tek_ut__sleep(unsigned int seconds);

/* blocking_signal.c: with this mask until a handler has run; NULL: with its current one. */
int tek_ut__sigsuspend(const sigset_t *mask);

/* blocking_ipc.c: of System V. `timeout` may be NULL. */
ssize_t tek_ut__msgrcv(int queue, void *message, size_t size, long type, int flags);
int tek_ut__msgsnd(int queue, const void *message, size_t size, int flags);
int tek_ut__semtimedop(int set, struct sembuf *operations, size_t count,
		       const struct timespec *timeout);

/* blocking_lock.c: fcntl(2) with F_SETLKW or F_OFD_SETLKW; lockf(3) with F_LOCK. */
int tek_ut__flock(int file, int operation);
int tek_ut__fcntl_lock(int file, int command, struct flock *lock);
int tek_ut__lockf(int file, off_t size);

/* blocking_open.c. Whether opening that may block: a FIFO or a device. */
bool tek_ut__open_may_wait(int directory, const char *path);
int tek_ut__openat(int directory, const char *path, int flags, mode_t mode);

/* blocking_child.c */
pid_t tek_ut__wait4(pid_t child, int *status, int options, struct rusage *usage);
int tek_ut__waitid(idtype_t type, id_t id, siginfo_t *info, int options);

#endif
