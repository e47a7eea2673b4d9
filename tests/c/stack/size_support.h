/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kinds of threads with known stacks. */
#ifndef TESTS_SIZE_SUPPORT_H
#define TESTS_SIZE_SUPPORT_H

#include "profile_support.h"

#include <fcntl.h>

enum { CALLER_BOUND = 300 * KIB, NEARLY_FULL = 7 * MIB, GROWN_FROM = 50 * KIB };
static const size_t huge = 512 * (size_t)MIB; /* of overflowed(): more than it gets */

/* The shape of the calling thread's stack. */
struct shape {
	size_t bytes, guard_bytes;
	struct tek_stack stack; /* what TEK has of it */
	uintptr_t call_site;
	int error; /* errno at first */
};

static inline void examine(struct shape *shape)
{
	pthread_attr_t attr;
	void *low;

	shape->error = errno;
	assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
	assert_int_equal(pthread_attr_getstack(&attr, &low, &shape->bytes), 0);
	assert_int_equal(pthread_attr_getguardsize(&attr, &shape->guard_bytes), 0);
	pthread_attr_destroy(&attr);
	assert_true(tek__lock());
	shape->stack = tek__thread_self()->stack;
	shape->call_site = tek__thread_self()->birth.call_site;
	tek__unlock();
}

/* The functions of threads. Each does something of its own, or they would be one. */
#define FUNCTION(name, number) \
	__attribute__((noinline, unused)) static void *name(void *shape) \
	{ \
		__asm__ volatile("" : : "r"(number)); \
		examine(shape); \
		return NULL; \
	}
FUNCTION(known, 1)            /* in the profile, of any caller */
FUNCTION(unknown, 2)          /* not in it */
FUNCTION(by_caller, 3)        /* only if created by create_there() */
FUNCTION(overflowed, 4)       /* known to have overflowed */
FUNCTION(overflowed_small, 6) /* known to have overflowed a stack much smaller than usual */
FUNCTION(nearly_full, 7)      /* known to use certainly most of a usual stack */
FUNCTION(perhaps_full, 8)     /* known to use that perhaps */
FUNCTION(grown, 9)            /* known to have used more in later runs */
FUNCTION(elsewhere, 5)        /* in the profile, but in a file of another name */

ONE_COPY static struct shape create_here(void *(*function)(void *), const pthread_attr_t *attr)
{
	struct shape shape = {0};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, attr, function, &shape), 0);
	pthread_join(thread, NULL);
	return shape;
}

ONE_COPY static struct shape create_there(void *(*function)(void *))
{
	struct shape shape = {0};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, function, &shape), 0);
	pthread_join(thread, NULL);
	return shape;
}

enum { DEEP_BOUND = 400 * KIB, FLAT_BOUND = 16 * KIB, DEEP_USE = 500 * KIB };

struct pooled {
	const char *name;
	bool by_system_call; /* it uses its stack so, which cannot fault */
	size_t before, reported, after, used;
	bool grown;
	uintptr_t low; /* of the stack that it ended with */
};

static inline size_t own_bytes(uintptr_t *low)
{
	assert_true(tek__lock());
	const struct tek_stack *stack = &tek__thread_self()->stack;
	const size_t bytes = stack->bytes;
	*low = stack->end - bytes;
	tek__unlock();
	return bytes;
}

__attribute__((noinline, unused)) static size_t use_own(bool by_system_call)
{
	char *memory = __builtin_alloca(DEEP_USE);
	int zeros = by_system_call ? open("/dev/zero", O_RDONLY) : -1;

	if (!by_system_call)
		memset(memory, 1, DEEP_USE);
	__asm__ volatile("" : : "r"(memory) : "memory");
	ssize_t used = by_system_call ? read(zeros, memory, DEEP_USE) : DEEP_USE;
	close(zeros);
	return used > 0 ? (size_t)used : 0;
}

static inline void *pooled(void *value)
{
	struct pooled *self = value;
	struct shape shape = {0};

	self->before = own_bytes(&self->low);
	examine(&shape);
	self->reported = shape.bytes;
	if (self->name)
		pthread_setname_np(pthread_self(), self->name);
	self->after = own_bytes(&self->low);
	if (!self->name || strcmp(self->name, "flat") != 0)
		self->used = use_own(self->by_system_call);
	own_bytes(&self->low);
	assert_true(tek__lock());
	self->grown = tek__thread_self()->stack.flags & TEK_STACK_GROWN;
	tek__unlock();
	return NULL;
}

static inline void print_kinds(FILE *profile)
{
	char rest[100];

	snprintf(rest, sizeof(rest), "label=name:a bound=%d threads=5", KNOWN_BOUND / 2);
	print_kind(profile, (uintptr_t)known, 0, rest);
	snprintf(rest, sizeof(rest), "label=name:b bound=%d threads=3", KNOWN_BOUND);
	print_kind(profile, (uintptr_t)known, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d least=%d threads=3", KNOWN_BOUND, GROWN_FROM);
	print_kind(profile, (uintptr_t)grown, 0, rest);
	snprintf(rest, sizeof(rest), "label=- bound=%d threads=0", FLAT_BOUND);
	print_kind(profile, (uintptr_t)pooled, 0, rest);
	snprintf(rest, sizeof(rest), "label=name:flat bound=%d threads=9", FLAT_BOUND);
	print_kind(profile, (uintptr_t)pooled, 0, rest);
	snprintf(rest, sizeof(rest), "label=name:deep bound=%d threads=1", DEEP_BOUND);
	print_kind(profile, (uintptr_t)pooled, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d threads=3", CALLER_BOUND);
	print_kind(profile, (uintptr_t)by_caller, create_there(by_caller).call_site, rest);
	snprintf(rest, sizeof(rest), "bound=1000 overflow=%zu threads=3", huge);
	print_kind(profile, (uintptr_t)overflowed, 0, rest);
	print_kind(profile, (uintptr_t)overflowed_small, 0, "bound=1000 overflow=77824 threads=3");
	snprintf(rest, sizeof(rest), "bound=%d peak=%d threads=3", NEARLY_FULL, NEARLY_FULL - 100);
	print_kind(profile, (uintptr_t)nearly_full, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d peak=4000 threads=3", NEARLY_FULL);
	print_kind(profile, (uintptr_t)perhaps_full, 0, rest);
	fprintf(profile, "kind function=@elsewhere+0x%llx bound=1000 threads=1\n",
		(unsigned long long)((uintptr_t)elsewhere - tek__module_program()->bias));
}

#endif
