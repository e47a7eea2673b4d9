/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * operator new and delete of C++, where the allocator behind us has its own.  Those of the C++
 * library call malloc() and free(), and are counted there.
 */
#include "base/export.h"
#include "preload/profile/call.h"

#include <dlfcn.h>

struct operator
{
	const char *name;
	void *function;
	bool is_allocators;
};

/*
 * Not with the other functions: the C++ library may come later, with a plugin, and into a name
 * space of its own where RTLD_NEXT does not search. The caller of this operator has one.
 */
__attribute__((cold)) static void find(struct operator* operator)
{
	static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
	void *found = dlsym(RTLD_NEXT, operator->name);

	for (size_t i = 0; !found && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		if (library)
			found = dlsym(library, operator->name);
	}
	if (!found)
		abort();
	const void *allocator = (const void *)REAL(malloc);
	operator->is_allocators = tek_prof__is_same_library(found, allocator);
	__atomic_store_n(&operator->function, found, __ATOMIC_RELEASE);
}

/* The next one is next_; thread_: NULL where it is not counted here. */
#define TEK_NEXT(name) \
	static struct operator operator_ = {#name, NULL, false}; \
	if (__builtin_expect(!__atomic_load_n(&operator_.function, __ATOMIC_ACQUIRE), 0)) \
		find(&operator_); \
	__typeof__(&name) next_ = (__typeof__(&name))operator_.function; \
	uint32_t weight_ = 0; \
	struct tek_profile_thread *thread_ = \
		operator_.is_allocators \
			? tek_prof__enter_counted(TEK_PROFILE_ALLOC, TEK_FRAME, false, &weight_) \
			: NULL

#define TEK_NEW(...) TEK_NEW_(__VA_ARGS__)
#define TEK_NEW_(name, parameters, arguments) \
	void *name parameters; \
	TEK_EXPORT void *name parameters \
	{ \
		TEK_NEXT(name); \
		void *result_ = next_ arguments; \
		if (thread_) \
			tek_prof__leave_counted(thread_, TEK_PROFILE_ALLOC, weight_); \
		return result_; \
	}

#define TEK_DELETE(...) TEK_DELETE_(__VA_ARGS__)
#define TEK_DELETE_(name, parameters, arguments) \
	void name parameters; \
	TEK_EXPORT void name parameters \
	{ \
		TEK_NEXT(name); \
		next_ arguments; \
		if (thread_) \
			tek_prof__leave_counted(thread_, TEK_PROFILE_ALLOC, weight_); \
	}

/*
 * In C++'s names size_t is m or j, std::align_val_t is a size_t, and std::nothrow_t is passed by
 * its address.
 */
#if __SIZEOF_SIZE_T__ == 8
#define SIZE m
#else
#define SIZE j
#endif
#define JOIN(one, two, three) one##two##three
#define JOINED(one, two, three) JOIN(one, two, three)

#define NEW_PAIR(type, parameters, arguments) \
	TEK_NEW(JOINED(_Znw, SIZE, type), parameters, arguments) \
	TEK_NEW(JOINED(_Zna, SIZE, type), parameters, arguments)
#define DELETE_PAIR(type, parameters, arguments) \
	TEK_DELETE(JOINED(_ZdlPv, type, ), parameters, arguments) \
	TEK_DELETE(JOINED(_ZdaPv, type, ), parameters, arguments)
#define SIZED_DELETE_PAIR(type, parameters, arguments) \
	TEK_DELETE(JOINED(_ZdlPv, SIZE, type), parameters, arguments) \
	TEK_DELETE(JOINED(_ZdaPv, SIZE, type), parameters, arguments)

NEW_PAIR(, (size_t bytes), (bytes))
NEW_PAIR(RKSt9nothrow_t, (size_t bytes, const void *tag), (bytes, tag))
NEW_PAIR(St11align_val_t, (size_t bytes, size_t align), (bytes, align))
NEW_PAIR(St11align_val_tRKSt9nothrow_t, (size_t bytes, size_t align, const void *tag),
	 (bytes, align, tag))
DELETE_PAIR(, (void *block), (block))
SIZED_DELETE_PAIR(, (void *block, size_t bytes), (block, bytes))
DELETE_PAIR(RKSt9nothrow_t, (void *block, const void *tag), (block, tag))
DELETE_PAIR(St11align_val_t, (void *block, size_t align), (block, align))
SIZED_DELETE_PAIR(St11align_val_t, (void *block, size_t bytes, size_t align), (block, bytes, align))
DELETE_PAIR(St11align_val_tRKSt9nothrow_t, (void *block, size_t align, const void *tag),
	    (block, align, tag))
