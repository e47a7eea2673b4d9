/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The facts about the C library that are needed to make thread-local storage as its threads have
 * it.
 *
 * It describes the structure of a thread to debuggers (_thread_db_*, for libthread_db). ld.so makes
 * the storage for it, by functions that every glibc has had under the same names for twenty years.
 * Everything is queried at run time and compared with the first thread's data. If anything is
 * unexpected no storage is available.
 */
#ifndef TEK_UTHREAD_TLS_GLIBC_H
#define TEK_UTHREAD_TLS_GLIBC_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An entry of the vector of a thread's modules ("dtv"), one for each number of a module; see
 * tek_ut__tls_vector().
 */
struct tek_tls_entry {
	void *value;   /* TEK_TLS_UNALLOCATED: not yet; [0]: generation; [-1]: number of entries */
	void *to_free; /* NULL: in the block that all have from the start */
};
#define TEK_TLS_UNALLOCATED ((void *)-1)

struct tek_glibc {
	void *(*allocate)(void *block);                  /* _dl_allocate_tls */
	void (*deallocate)(void *block, bool all_of_it); /* _dl_deallocate_tls */
	void (*static_info)(size_t *bytes,
			    size_t *alignment); /* _dl_get_tls_static_info; NULL: not there */
	void (*call_destructors)(void);         /* __call_tls_dtors */
	locale_t (*use_locale)(locale_t);       /* its own, even if another object interposes it */
	char *(*load_error)(void);              /* dlerror, as above */

	size_t bytes; /* of the structure of a thread */
	/* Offsets in it, in bytes; those that may be 0 are unknown then. */
	size_t tid;
	size_t list;        /* of all threads */
	size_t keys;        /* the table of blocks of thread-specific data */
	size_t first_keys;  /* the first of those blocks */
	size_t given_stack; /* a bool: the stack is not the C library's; may be 0 */
	size_t stack_bytes; /* with the lowest address before it; may be 0 */
	size_t robust;      /* struct robust_list_head; may be 0 */
	long robust_futex;  /* its futex_offset */
	/* From the thread pointer, in bytes. */
	ptrdiff_t error;      /* errno */
	ptrdiff_t host_error; /* h_errno */
	ptrdiff_t resolver;   /* a pointer to struct __res_state; 0: not known */
	ptrdiff_t rseq;       /* see rseq(2) */
	size_t rseq_bytes;    /* of it, that the kernel uses; 0: there is none */
};

extern struct tek_glibc tek_ut__glibc __attribute__((visibility("hidden")));

/* By the first thread. */
bool tek_ut__glibc_find(void);

/* The thread pointer. */
static inline uintptr_t tek_ut__tls_pointer(void)
{
	uintptr_t pointer = 0;
#if defined(__x86_64__)
	__asm__ volatile("movq %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
	__asm__ volatile("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
	return pointer;
}

/* The C library's structure of the thread with this thread pointer. */
static inline char *tek_ut__tls_structure(uintptr_t pointer)
{
#if defined(__aarch64__)
	return (char *)pointer - tek_ut__glibc.bytes;
#else
	return (char *)pointer;
#endif
}

static inline struct tek_tls_entry *tek_ut__tls_vector(uintptr_t pointer)
{
#if defined(__aarch64__)
	return *(struct tek_tls_entry **)pointer;
#else
	return *(struct tek_tls_entry **)(pointer + sizeof(void *));
#endif
}

#endif
