/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that wait for a time, for input from outside, or for another process. */
#include "preload/profile/call.h"

TEK_IDLE(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
TEK_IDLE(int, clock_nanosleep,
	 (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
	 (clock, flags, time, left))
TEK_IDLE(int, usleep, (useconds_t time), (time))
TEK_IDLE(unsigned int, sleep, (unsigned int time), (time))
TEK_IDLE(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
TEK_IDLE(int, ppoll,
	 (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
	 (fds, count, timeout, mask))
TEK_IDLE(int, select,
	 (int count, fd_set *reads, fd_set *writes, fd_set *exceptions, struct timeval *timeout),
	 (count, reads, writes, exceptions, timeout))
TEK_IDLE(int, pselect,
	 (int count, fd_set *reads, fd_set *writes, fd_set *exceptions,
	  const struct timespec *timeout, const sigset_t *mask),
	 (count, reads, writes, exceptions, timeout, mask))
TEK_IDLE(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int timeout),
	 (epoll, events, most, timeout))
TEK_IDLE(int, epoll_pwait,
	 (int epoll, struct epoll_event *events, int most, int timeout, const sigset_t *mask),
	 (epoll, events, most, timeout, mask))
TEK_IDLE(int, accept, (int fd, __SOCKADDR_ARG address, socklen_t *length), (fd, address, length))
TEK_IDLE(int, accept4, (int fd, __SOCKADDR_ARG address, socklen_t *length, int flags),
	 (fd, address, length, flags))
TEK_IDLE(int, connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t length),
	 (fd, address, length))
TEK_IDLE(ssize_t, recv, (int fd, void *buffer, size_t bytes, int flags), (fd, buffer, bytes, flags))
TEK_IDLE(ssize_t, recvfrom,
	 (int fd, void *buffer, size_t bytes, int flags, __SOCKADDR_ARG address, socklen_t *length),
	 (fd, buffer, bytes, flags, address, length))
TEK_IDLE(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
TEK_IDLE(pid_t, wait, (int *status), (status))
TEK_IDLE(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
TEK_IDLE(pid_t, wait3, (int *status, int options, struct rusage *usage), (status, options, usage))
TEK_IDLE(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage),
	 (pid, status, options, usage))
TEK_IDLE(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options),
	 (type, id, info, options))
TEK_IDLE(int, pause, (void), ())
TEK_IDLE(int, sigsuspend, (const sigset_t *mask), (mask))
TEK_IDLE(int, sigwait, (const sigset_t *set, int *signal), (set, signal))
TEK_IDLE(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info), (set, info))
TEK_IDLE(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *timeout),
	 (set, info, timeout))
TEK_IDLE(int, epoll_pwait2,
	 (int epoll, struct epoll_event *events, int most, const struct timespec *timeout,
	  const sigset_t *mask),
	 (epoll, events, most, timeout, mask))
TEK_IDLE(int, recvmmsg,
	 (int fd, struct mmsghdr *messages, unsigned int count, int flags,
	  struct timespec *timeout),
	 (fd, messages, count, flags, timeout))
TEK_IDLE(int, system, (const char *command), (command))
TEK_IDLE(int, flock, (int fd, int operation), (fd, operation))
TEK_IDLE(int, lockf, (int fd, int operation, off_t bytes), (fd, operation, bytes))
TEK_IDLE(int, lockf64, (int fd, int operation, off64_t bytes), (fd, operation, bytes))
TEK_IDLE(ssize_t, mq_receive, (mqd_t queue, char *message, size_t bytes, unsigned int *priority),
	 (queue, message, bytes, priority))
TEK_IDLE(ssize_t, mq_timedreceive,
	 (mqd_t queue, char *message, size_t bytes, unsigned int *priority,
	  const struct timespec *until),
	 (queue, message, bytes, priority, until))
TEK_IDLE(int, mq_send, (mqd_t queue, const char *message, size_t bytes, unsigned int priority),
	 (queue, message, bytes, priority))
TEK_IDLE(int, mq_timedsend,
	 (mqd_t queue, const char *message, size_t bytes, unsigned int priority,
	  const struct timespec *until),
	 (queue, message, bytes, priority, until))
TEK_IDLE(ssize_t, msgrcv, (int queue, void *message, size_t bytes, long type, int flags),
	 (queue, message, bytes, type, flags))
TEK_IDLE(int, msgsnd, (int queue, const void *message, size_t bytes, int flags),
	 (queue, message, bytes, flags))
TEK_IDLE(int, semop, (int set, struct sembuf *operations, size_t count), (set, operations, count))
TEK_IDLE(int, semtimedop,
	 (int set, struct sembuf *operations, size_t count, const struct timespec *timeout),
	 (set, operations, count, timeout))
/* Of programs that are built with _FORTIFY_SOURCE. */
TEK_IDLE(int, __poll_chk, (struct pollfd * fds, nfds_t count, int timeout, size_t room),
	 (fds, count, timeout, room))
TEK_IDLE(int, __ppoll_chk,
	 (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
	  size_t room),
	 (fds, count, timeout, mask, room))
TEK_IDLE(ssize_t, __recv_chk, (int fd, void *buffer, size_t bytes, size_t room, int flags),
	 (fd, buffer, bytes, room, flags))
TEK_IDLE(ssize_t, __recvfrom_chk,
	 (int fd, void *buffer, size_t bytes, size_t room, int flags, __SOCKADDR_ARG address,
	  socklen_t *length),
	 (fd, buffer, bytes, room, flags, address, length))
