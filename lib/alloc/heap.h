/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The heap of a process that libtek-alloc.so is preloaded into: one TLSF heap (tlsf.h) under one
 * lock (lock.h).
 *
 * Its first memory is a static piece, for the dynamic loader.  Then it either grows by mmap(2), a
 * piece at a time, which takes as long as the kernel takes, and keeps what it has, with large
 * blocks apart (large.h); or it has a pool, and nothing more: all of the pool is present, and
 * locked if that is allowed, before the first library begins, so that the kernel has no page table
 * to change later (rtos-linux-scalability-2018, 3.1.4).  When the pool is used up there is no more
 * memory: ENOMEM, and once a line on standard error.  To grow after all would break what a pool is
 * for, silently.
 *
 * fork(2) needs no help: the child repairs the operation that another thread was in when the kernel
 * copied the heap (tlsf.h, lock.h).
 *
 * All functions may be called from every thread, but not from signal handlers: one that interrupts
 * an allocation gets no memory, and frees none.
 */
#ifndef TEK_ALLOC_HEAP_H
#define TEK_ALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Configures the heap from the environment. The first call of these functions does so: libraries
 * that the program needs begin before preloaded ones do. The very first come before the C library
 * knows its environment.
 */
void tek_alloc__heap_begin(bool is_environment_there);

/* NULL and ENOMEM; errno stays otherwise. `alignment`: a power of two. */
void *tek_alloc__heap_allocate(size_t alignment, size_t bytes);

/* As above, zero. */
void *tek_alloc__heap_allocate_zeroed(size_t bytes);

/*
 * Not NULL. errno stays. A pointer that is not the heap's ends the program, as with the C library.
 */
void tek_alloc__heap_free(void *memory);

/* As realloc(3), of memory that is not NULL, to more than 0 bytes. */
void *tek_alloc__heap_resize(void *memory, size_t bytes);

/* How many bytes of it the owner may use. */
size_t tek_alloc__heap_usable(const void *memory);

#endif
