/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/tls_block.h"

#include "uthread/tls_glibc.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * The C library's recursive locks store the kernel's number of a thread as their owner. These ids
 * are above all of the kernel's (2^22 at most), and below the bits that futexes use (2^30).
 */
enum { FIRST_ID = 1 << 28, IDS = 1 << 28 };

static atomic_uint last_id;

static void set_word(char *structure, size_t at, uintptr_t value)
{
	memcpy(structure + at, &value, sizeof(value));
}

#if defined(__x86_64__)

/*
 * The head of the structure (tcbhead_t), which compiled code knows in part: the secrets of the
 * stack protector and of longjmp are those of the whole process.
 */
static void fill_head(char *structure)
{
	enum { SELF_0 = 0, SELF_1 = 16, MANY_THREADS = 24, FROM = 32, TO = 56, CET = 72 };
	const char *mine = (const char *)tek_ut__tls_pointer();
	const int yes = 1;

	set_word(structure, SELF_0, (uintptr_t)structure);
	set_word(structure, SELF_1, (uintptr_t)structure);
	memcpy(structure + MANY_THREADS, &yes, sizeof(yes));
	memcpy(structure + FROM, mine + FROM, TO - FROM); /* sysinfo, both secrets */
	memcpy(structure + CET, mine + CET, sizeof(unsigned int));
}

#else

static void fill_head(char *structure)
{
	(void)structure; /* the secrets are ordinary variables here */
}

#endif

/*
 * A list of itself alone: the C library takes the thread that called fork() out of its list, and
 * puts it in again.
 */
static void fill_list(char *structure)
{
	char *node = structure + tek_ut__glibc.list;

	set_word(node, 0, (uintptr_t)node);
	set_word(node, sizeof(uintptr_t), (uintptr_t)node);
	/* Else the C library would take the engine's stack for its own there, and reuse it. */
	if (tek_ut__glibc.given_stack)
		structure[tek_ut__glibc.given_stack] = 1;
}

static void fill_robust(char *structure)
{
	if (!tek_ut__glibc.robust)
		return;
	char *head = structure + tek_ut__glibc.robust;
	struct robust_list_head empty = {
		.list = {(struct robust_list *)head},
		.futex_offset = tek_ut__glibc.robust_futex,
	};
	memcpy(head, &empty, sizeof(empty));
	set_word(structure, tek_ut__glibc.robust - sizeof(uintptr_t), (uintptr_t)head);
}

/* The kernel writes into no block of the engine: a reader has to ask the kernel. */
static void fill_rseq(uintptr_t pointer)
{
	const unsigned int of_no_use[2] = {0, -2u}; /* cpu_id_start, cpu_id */

	if (tek_ut__glibc.rseq_bytes)
		memcpy((char *)pointer + tek_ut__glibc.rseq, of_no_use, sizeof(of_no_use));
}

static void fill(struct tek_tls *block)
{
	char *structure = tek_ut__tls_structure(block->pointer);

	fill_head(structure);
	fill_list(structure);
	fill_robust(structure);
	fill_rseq(block->pointer);
	set_word(structure, tek_ut__glibc.keys, (uintptr_t)structure + tek_ut__glibc.first_keys);
	if (tek_ut__glibc.resolver)
		set_word((char *)block->pointer + tek_ut__glibc.resolver, 0,
			 (uintptr_t)&block->resolver);
}

struct tek_tls *tek_ut__tls_block_make(const struct tek_tls_layout *layout)
{
	struct tek_tls *block = calloc(1, sizeof(*block));
	void *memory = block ? tek_ut__glibc.allocate(NULL) : NULL;

	if (!memory) {
		free(block);
		return NULL;
	}
	block->pointer = (uintptr_t)memory;
	block->layout = layout;
	block->generation = (size_t)tek_ut__tls_vector(block->pointer)[0].value;
	block->id = FIRST_ID + (int)(atomic_fetch_add(&last_id, 1) % IDS);
	fill(block);
	return block;
}

void tek_ut__tls_block_drop(struct tek_tls *block)
{
	tek_ut__glibc.deallocate((void *)block->pointer, true);
	free(block);
}

bool tek_ut__tls_block_is_outgrown(const struct tek_tls *block)
{
	const struct tek_tls_entry *vector = tek_ut__tls_vector(block->pointer);
	const size_t count = (size_t)vector[-1].value;

	if ((size_t)vector[0].value != block->generation)
		return true;
	for (size_t i = 1; i <= count; i++)
		if (vector[i].to_free)
			return true;
	return false;
}

bool tek_ut__tls_block_renew(struct tek_tls *block)
{
	const struct tek_tls_piece *own = &block->layout->c_library;
	char *from = (char *)block->pointer + own->at;
	char *copy = malloc(own->bytes);

	if (!copy)
		return false;
	memcpy(copy, from, own->bytes);
	/*
	 * Frees the vector and all data outside the block; then makes a new vector, and all
	 * variables.
	 */
	tek_ut__glibc.deallocate((void *)block->pointer, false);
	bool done = tek_ut__glibc.allocate((void *)block->pointer) != NULL;
	memcpy(from, copy, own->bytes);
	free(copy);
	if (done)
		block->generation = (size_t)tek_ut__tls_vector(block->pointer)[0].value;
	return done;
}

void tek_ut__tls_block_clean(struct tek_tls *block, const void *stack, size_t stack_bytes)
{
	char *structure = tek_ut__tls_structure(block->pointer);
	const int none = 0;

	tek_ut__tls_layout_reset(block->layout, block->pointer);
	memcpy((char *)block->pointer + tek_ut__glibc.error, &none, sizeof(none));
	memcpy((char *)block->pointer + tek_ut__glibc.host_error, &none, sizeof(none));
	/* fork() writes the kernel's id there. */
	memcpy(structure + tek_ut__glibc.tid, &block->id, sizeof(block->id));
	if (tek_ut__glibc.stack_bytes) {
		set_word(structure, tek_ut__glibc.stack_bytes, stack_bytes);
		set_word(structure, tek_ut__glibc.stack_bytes - sizeof(uintptr_t),
			 (uintptr_t)stack);
	}
}
