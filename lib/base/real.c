/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/real.h"

#include "base/definition.h"
#include "base/next.h"
#include "base/sanitizer.h"

#include <stddef.h>
#include <string.h>

struct tek_real tek__real, tek__c_library;

#define FUNCTION(name) \
	{ \
#name, offsetof(struct tek_real, name) \
	}
static const struct {
	const char *name;
	size_t at;
} functions[] = {
	FUNCTION(pthread_create),
	FUNCTION(pthread_attr_setschedpolicy),
	FUNCTION(pthread_attr_setschedparam),
	FUNCTION(pthread_setattr_default_np),
	FUNCTION(pthread_setschedparam),
	FUNCTION(pthread_getschedparam),
	FUNCTION(pthread_setschedprio),
	FUNCTION(pthread_setname_np),
	FUNCTION(pthread_getattr_np),
	FUNCTION(sched_setscheduler),
	FUNCTION(sched_getscheduler),
	FUNCTION(sched_setparam),
	FUNCTION(sched_getparam),
	FUNCTION(sched_setattr),
	FUNCTION(sched_getattr),
	FUNCTION(setpriority),
	FUNCTION(nice),
	FUNCTION(sched_get_priority_min),
	FUNCTION(sched_get_priority_max),
	FUNCTION(sched_getaffinity),
	FUNCTION(pthread_getaffinity_np),
	FUNCTION(sched_setaffinity),
	FUNCTION(pthread_setaffinity_np),
	FUNCTION(pthread_attr_setaffinity_np),
	FUNCTION(prctl),
	FUNCTION(sigaction),
	FUNCTION(pthread_sigmask),
	FUNCTION(sigprocmask),
	FUNCTION(signal),
	FUNCTION(sysv_signal),
	FUNCTION(sigset),
	FUNCTION(pthread_mutex_lock),
	FUNCTION(pthread_mutex_trylock),
	FUNCTION(pthread_mutex_timedlock),
	FUNCTION(pthread_mutex_clocklock),
	FUNCTION(pthread_mutex_unlock),
	FUNCTION(pthread_rwlock_rdlock),
	FUNCTION(pthread_rwlock_wrlock),
	FUNCTION(pthread_rwlock_tryrdlock),
	FUNCTION(pthread_rwlock_trywrlock),
	FUNCTION(pthread_rwlock_timedrdlock),
	FUNCTION(pthread_rwlock_timedwrlock),
	FUNCTION(pthread_rwlock_clockrdlock),
	FUNCTION(pthread_rwlock_clockwrlock),
	FUNCTION(pthread_rwlock_unlock),
	FUNCTION(pthread_cond_wait),
	FUNCTION(pthread_cond_timedwait),
	FUNCTION(pthread_cond_clockwait),
	FUNCTION(pthread_cond_signal),
	FUNCTION(pthread_cond_broadcast),
	FUNCTION(sem_init),
	FUNCTION(sem_wait),
	FUNCTION(sem_post),
	FUNCTION(pthread_join),
	FUNCTION(pthread_key_create),
	FUNCTION(mlock),
	FUNCTION(mlock2),
	FUNCTION(mlockall),
	FUNCTION(clone),
	FUNCTION(vfork),
	FUNCTION(execve),
	FUNCTION(execvpe),
	FUNCTION(fexecve),
	FUNCTION(execveat),
	FUNCTION(posix_spawn),
	FUNCTION(posix_spawnp),
	FUNCTION(system),
	FUNCTION(popen),
	FUNCTION(timer_create),
	FUNCTION(mq_notify),
	FUNCTION(dlopen),
	FUNCTION(syscall),
};

/* `find` returns the function of a name. */
static void fill(struct tek_real *real, void *(*find)(const char *name))
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = find(functions[i].name);
		memcpy((char *)real + functions[i].at, &function, sizeof(function));
	}
}

void tek__real_find(void)
{
	fill(&tek__real, tek__next_definition);
	fill(&tek__c_library,
	     tek__sanitizer_is_loaded() ? tek__next_definition : tek__c_library_function);
}
