/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The layout of thread-local storage: the parts of a block (tls_block.h) that have to be set to
 * their first values for a new thread.
 *
 * The modules of the program's start, and a few later ones, have their variables in each thread's
 * block. There the distance from the thread pointer is fixed. An unused block, the model, keeps
 * their first values, so they are available without the loader, and after a module is gone.
 *
 * A layout never changes and is never given back. It is replaced when a loaded library has
 * variables in the block; that is rare, as libraries that are loaded later mostly have theirs
 * elsewhere.
 */
#ifndef TEK_UTHREAD_TLS_LAYOUT_H
#define TEK_UTHREAD_TLS_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the block to be copied from the model, or set to zero. */
struct tek_tls_piece {
	ptrdiff_t at; /* from the thread pointer */
	size_t bytes;
	bool zero;
};

struct tek_tls_module {
	size_t number;
	ptrdiff_t at;       /* from the thread pointer */
	size_t image_bytes; /* with values of their own; the rest is zero */
	size_t bytes;
	bool in_block;
};

struct tek_tls_layout {
	uintptr_t model;           /* its thread pointer */
	_Atomic size_t generation; /* of the loader, when this was last verified */
	size_t piece_count;        /* of all modules but the C library */
	struct tek_tls_piece *pieces;
	struct tek_tls_piece c_library; /* all of its own */
	size_t module_count;
	struct tek_tls_module modules[];
};

/*
 * The current layout; NULL: no memory, or not as expected. Not between tek_ut__enter() and
 * tek_ut__leave().
 */
struct tek_tls_layout *tek_ut__tls_layout_make(void);

/* One that was never in force. NULL is none. */
void tek_ut__tls_layout_drop(struct tek_tls_layout *layout);

/* Whether modules lie in the block at the same places in both. */
bool tek_ut__tls_layout_same(const struct tek_tls_layout *one, const struct tek_tls_layout *other);

/*
 * Gives all variables of a block their first values, those of the C library (and of malloc(3) in
 * it) excepted.
 */
void tek_ut__tls_layout_reset(const struct tek_tls_layout *layout, uintptr_t block);

/*
 * The modules in the block that `before` does not have get their first values. `used`: their
 * variables are in use already, since constructors ran in the thread that loaded them; only words
 * that are zero get a value.
 */
void tek_ut__tls_layout_add(const struct tek_tls_layout *layout,
			    const struct tek_tls_layout *before, uintptr_t block, bool used);

/*
 * For a new block: clears the room of later modules. The loader leaves the memory's old contents
 * there. A library's constructors, which run before the engine detects it, have to find zeros at
 * least.
 */
void tek_ut__tls_layout_clear_surplus(const struct tek_tls_layout *layout, uintptr_t block);

#endif
