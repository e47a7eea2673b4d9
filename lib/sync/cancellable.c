/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/cancellable.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <stdatomic.h>

/* Where they are: since glibc 2.34 in the first of these. */
static const char *const libraries[] = {LIBC_SO, LIBPTHREAD_SO};

/* It is in the process, and stays there. */
static void *find(const char *name)
{
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		if (library)
			found = dlsym(library, name);
	}
	return found;
}

/* The C library's function of that name.  Looked up once: before the program begins, or by who waits even before that. */
#define C_LIBRARYS(name) \
	({ \
		static _Atomic(void *) function; \
		void *found = atomic_load_explicit(&function, memory_order_relaxed); \
		if (__builtin_expect(!found, 0)) { \
			found = find(#name); \
			atomic_store_explicit(&function, found, memory_order_relaxed); \
		} \
		(__typeof__(&name))found; \
	})

void tek__cancellable_init(struct tek_cancellable *sleeper)
{
	C_LIBRARYS(sem_init)(&sleeper->awake, 0, 0);
}

static int sleep_once(struct tek_cancellable *sleeper, struct tek_until until)
{
	const int result = until.at ? C_LIBRARYS(sem_clockwait)(&sleeper->awake, until.clock,
								until.at)
				    : C_LIBRARYS(sem_wait)(&sleeper->awake);
	return result == 0 ? 0 : errno;
}

int tek__cancellable_sleep(struct tek_cancellable *sleeper, struct tek_until until)
{
	const int before = errno;
	int error;

	do
		error = sleep_once(sleeper, until);
	while (error == EINTR);
	errno = before;
	return error;
}

void tek__cancellable_awaken(struct tek_cancellable *sleeper)
{
	const int before = errno;

	C_LIBRARYS(sem_post)(&sleeper->awake);
	errno = before;
}

/* The loader's lock is not for threads that wait for each other, one of which may have it. */
__attribute__((constructor)) static void look_up(void)
{
	struct tek_cancellable sleeper;
	const struct timespec past = {0};

	tek__cancellable_init(&sleeper);
	tek__cancellable_awaken(&sleeper);
	tek__cancellable_awaken(&sleeper);
	tek__cancellable_sleep(&sleeper, TEK_FOR_EVER);
	tek__cancellable_sleep(&sleeper, (struct tek_until){CLOCK_REALTIME, &past});
}
