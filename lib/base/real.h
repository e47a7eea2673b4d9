/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two tables of functions: those that libtek.so interposes, and a few that only TEK calls, such as
 * sem_post(). tek__real has their next definitions, for calls of the program; tek__c_library has
 * those of the C library, for TEK's own work. Other libraries of TEK use base/next.h.
 */
#ifndef TEK_BASE_REAL_H
#define TEK_BASE_REAL_H

#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

struct sched_attr; /* of the kernel */

/* The first parameter of setpriority(2). */
#ifdef __GLIBC__
typedef __priority_which_t tek_which;
#else
typedef int tek_which;
#endif

struct tek_real {
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*pthread_attr_setschedpolicy)(pthread_attr_t *, int);
	int (*pthread_attr_setschedparam)(pthread_attr_t *, const struct sched_param *);
	int (*pthread_setattr_default_np)(const pthread_attr_t *);
	int (*pthread_setschedparam)(pthread_t, int, const struct sched_param *);
	int (*pthread_getschedparam)(pthread_t, int *, struct sched_param *);
	int (*pthread_setschedprio)(pthread_t, int);
	int (*pthread_setname_np)(pthread_t, const char *);
	int (*pthread_getattr_np)(pthread_t, pthread_attr_t *);
	int (*sched_setscheduler)(pid_t, int, const struct sched_param *);
	int (*sched_getscheduler)(pid_t);
	int (*sched_setparam)(pid_t, const struct sched_param *);
	int (*sched_getparam)(pid_t, struct sched_param *);
	int (*sched_setattr)(pid_t, struct sched_attr *, unsigned int);
	int (*sched_getattr)(pid_t, struct sched_attr *, unsigned int, unsigned int);
	int (*setpriority)(tek_which, id_t, int);
	int (*nice)(int);
	int (*sched_get_priority_min)(int);
	int (*sched_get_priority_max)(int);
	int (*sched_getaffinity)(pid_t, size_t, cpu_set_t *);
	int (*pthread_getaffinity_np)(pthread_t, size_t, cpu_set_t *);
	int (*sched_setaffinity)(pid_t, size_t, const cpu_set_t *);
	int (*pthread_setaffinity_np)(pthread_t, size_t, const cpu_set_t *);
	int (*pthread_attr_setaffinity_np)(pthread_attr_t *, size_t, const cpu_set_t *);
	int (*prctl)(int, ...);
	int (*sigaction)(int, const struct sigaction *, struct sigaction *);
	int (*pthread_sigmask)(int, const sigset_t *, sigset_t *);
	int (*sigprocmask)(int, const sigset_t *, sigset_t *);
	sighandler_t (*signal)(int, sighandler_t);
	sighandler_t (*sysv_signal)(int, sighandler_t);
	sighandler_t (*sigset)(int, sighandler_t);
	int (*pthread_mutex_lock)(pthread_mutex_t *);
	int (*pthread_mutex_trylock)(pthread_mutex_t *);
	int (*pthread_mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
	int (*pthread_mutex_clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
	int (*pthread_mutex_unlock)(pthread_mutex_t *);
	int (*pthread_rwlock_rdlock)(pthread_rwlock_t *);
	int (*pthread_rwlock_wrlock)(pthread_rwlock_t *);
	int (*pthread_rwlock_tryrdlock)(pthread_rwlock_t *);
	int (*pthread_rwlock_trywrlock)(pthread_rwlock_t *);
	int (*pthread_rwlock_timedrdlock)(pthread_rwlock_t *, const struct timespec *);
	int (*pthread_rwlock_timedwrlock)(pthread_rwlock_t *, const struct timespec *);
	int (*pthread_rwlock_clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*pthread_rwlock_clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*pthread_rwlock_unlock)(pthread_rwlock_t *);
	int (*pthread_cond_wait)(pthread_cond_t *, pthread_mutex_t *);
	int (*pthread_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int (*pthread_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t,
				      const struct timespec *);
	int (*pthread_cond_signal)(pthread_cond_t *);
	int (*pthread_cond_broadcast)(pthread_cond_t *);
	int (*sem_init)(sem_t *, int, unsigned int);
	int (*sem_wait)(sem_t *);
	int (*sem_post)(sem_t *);
	int (*pthread_join)(pthread_t, void **);
	int (*pthread_key_create)(pthread_key_t *, void (*)(void *));
	int (*mlock)(const void *, size_t);
	int (*mlock2)(const void *, size_t, unsigned int);
	int (*mlockall)(int);
	int (*clone)(int (*)(void *), void *, int, void *, ...);
	pid_t (*vfork)(void);
	int (*execve)(const char *, char *const[], char *const[]);
	int (*execvpe)(const char *, char *const[], char *const[]);
	int (*fexecve)(int, char *const[], char *const[]);
	int (*execveat)(int, const char *, char *const[], char *const[], int);
	int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
			   const posix_spawnattr_t *, char *const[], char *const[]);
	int (*posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *,
			    const posix_spawnattr_t *, char *const[], char *const[]);
	int (*system)(const char *);
	FILE *(*popen)(const char *, const char *);
	int (*timer_create)(clockid_t, struct sigevent *, timer_t *);
	int (*mq_notify)(mqd_t, const struct sigevent *);
	void *(*dlopen)(const char *, int);
	long (*syscall)(long, long, long, long, long, long, long);
};

/*
 * The next definitions, to which calls of the program are passed on: another library may have
 * wrapped them.  Filled by tek__start(); constant afterwards.
 */
extern struct tek_real tek__real;

/*
 * The C library's, for TEK's own work.  A wrapper may lock and allocate, and a library of the
 * program may mean something else by the name.  Beside a sanitizer, which must know of all threads
 * and signals, they are the next definitions.  Filled by tek__start(); constant afterwards.
 */
extern struct tek_real tek__c_library;

/* Fill both. A function that the C library lacks stays NULL. */
void tek__real_find(void);

#endif
