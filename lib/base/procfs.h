/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The little that the library asks /proc.  Nothing here allocates or takes a lock; errno
 * stays as it is.
 */
#ifndef TEK_BASE_PROCFS_H
#define TEK_BASE_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Whether a process or thread exists.  Ask before each lookup of its directory in /proc: for an
 * ended one the kernel waits in a loop for others that remove that directory, and they never run
 * if the caller has a higher real-time priority on their CPU (crates/tek-procfs/README.md).
 */
bool tek__procfs_exists(pid_t tid);

/* Fields of /proc/PID/stat: proc_pid_stat(5). */
enum tek_stat_field {
	TEK_STAT_FLAGS = 9,        /* PF_* of the kernel */
	TEK_STAT_START_TICKS = 22, /* start time in clock ticks; compare it by time_namespace.h */
	TEK_STAT_VM_BYTES = 23,    /* virtual memory of the process */
	TEK_STAT_STACK_START = 28, /* address where its first stack begins */
};

/* One of them, of a process or thread. False if there is none with this id, or no /proc. */
bool tek__procfs_stat(pid_t tid, enum tek_stat_field field, uint64_t *value);

/* The beginning of /proc/TID/NAME as a string; false if there is none, or it is empty. */
bool tek__procfs_text(pid_t tid, const char *name, char *text, size_t size);

/* The beginning of /proc/self/NAME as a string; false if there is no such file, or it is empty. */
bool tek__procfs_own_text(const char *name, char *text, size_t size);

/*
 * Whether the kernel has begun to end a thread or process (PF_EXITING). False if there is none
 * with this id, or no /proc.
 */
bool tek__procfs_is_ending(pid_t tid, bool *ending);

/* The name of a thread of this process; false if there is none with this id, or no /proc. */
bool tek__procfs_thread_name(pid_t tid, char name[16]);

/* Calls visit for each thread of this process, those that are ending included. */
void tek__procfs_each_thread(void (*visit)(pid_t tid, void *context), void *context);

/* The process that a thread belongs to; 0 if there is no such thread, or no /proc. */
pid_t tek__procfs_process_of(pid_t tid);

/*
 * The address of the futex for which a thread of this process sleeps; 0: it does not. False: there
 * is no thread with this id, or no /proc.
 */
bool tek__procfs_futex(pid_t tid, uintptr_t *address);

/*
 * CPU time of a thread of this process, and how long it was runnable without a CPU, in ns. False:
 * there is no thread with this id, no /proc, or the kernel does not count this.
 */
bool tek__procfs_run_delay(pid_t tid, uint64_t *ran_ns, uint64_t *delayed_ns);

/* The inode number of the calling process's pid namespace; 0: not known. */
uint64_t tek__procfs_pid_namespace(void);

#endif
