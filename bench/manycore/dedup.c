/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dedup - compresses data, each chunk of it once (rtos-linux-scalability-2018, 4.5).
 *
 * A pipeline of five stages, three of which have so many threads as is asked for, so that up to
 * three times as many run:
 *
 *   fragment (1) -> refine (N) -> deduplicate (N) -> compress (N) -> reorder (1)
 *
 * A known chunk goes from the third stage to the last.  The size is that of the data in bytes.
 */
#include "chunks.h"
#include "dedup_data.h"
#include "file.h"
#include "program.h"
#include "queue.h"
#include "rabin.h"

#include <err.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* How coarse the first cut is and how fine the second. */
#define COARSE_LEAST 65536
#define COARSE_MOST 262144
#define COARSE_BITS 16
#define FINE_LEAST 256
#define FINE_MOST 8192
#define FINE_BITS 10

static const struct program_about about = {
	.name = "dedup",
	.size = 16 << 20,
	.least_size = 1024,
	.most_size = 1u << 30,
	.has_files = true,
};

/* A coarse piece of the data, which the fine ones are parts of. */
struct buffer {
	uint8_t *data;
	size_t size;
	uint64_t number; /* in the data */
	atomic_uint users;
};

struct piece {
	struct piece *next; /* of the same buffer, in the reorder stage */
	struct buffer *buffer;
	uint64_t number; /* in the buffer */
	bool is_last;
	size_t at, size;
	struct chunk *chunk;
};

/* The pieces of a buffer that have come to the reorder stage, in their order. */
struct arrived {
	struct piece *first;
	uint64_t next; /* the number of the piece to be written next */
};

static FILE *input, *output;
static struct queue to_refine, to_deduplicate, to_compress, to_reorder;
static struct arrived *arrived;
static uint64_t arrived_room;

/* The last user of the buffer frees it. */
static void release(struct buffer *buffer)
{
	if (atomic_fetch_sub_explicit(&buffer->users, 1, memory_order_acq_rel) > 1)
		return;
	free(buffer->data);
	free(buffer);
}

static void fragment(void)
{
	uint8_t *window = program_memory(malloc(COARSE_MOST));
	size_t held = 0, got;
	uint64_t number = 0;

	for (;;) {
		got = fread(window + held, 1, COARSE_MOST - held, input);
		held += got;
		if (held == 0)
			break;
		size_t size = rabin_cut(window, held, COARSE_LEAST, COARSE_MOST, COARSE_BITS);
		struct buffer *buffer = program_memory(malloc(sizeof(*buffer)));
		buffer->data = program_memory(malloc(size));
		buffer->size = size;
		buffer->number = number++;
		atomic_init(&buffer->users, 1);
		memcpy(buffer->data, window, size);
		held -= size;
		memmove(window, window + size, held);
		queue_put(&to_refine, buffer);
	}
	free(window);
	queue_leave(&to_refine);
}

static void refine(void)
{
	struct buffer *buffer;

	while ((buffer = queue_get(&to_refine))) {
		size_t at = 0;
		for (uint64_t number = 0; at < buffer->size; number++) {
			struct piece *piece = program_memory(calloc(1, sizeof(*piece)));
			piece->buffer = buffer;
			piece->number = number;
			piece->at = at;
			piece->size = rabin_cut(buffer->data + at, buffer->size - at, FINE_LEAST,
						FINE_MOST, FINE_BITS);
			at += piece->size;
			piece->is_last = at == buffer->size;
			atomic_fetch_add_explicit(&buffer->users, 1, memory_order_relaxed);
			queue_put(&to_deduplicate, piece);
		}
		release(buffer);
	}
	queue_leave(&to_deduplicate);
}

static void deduplicate(void)
{
	struct piece *piece;

	while ((piece = queue_get(&to_deduplicate))) {
		uint8_t digest[SHA1_BYTES];
		bool is_new;
		sha1(piece->buffer->data + piece->at, piece->size, digest);
		piece->chunk = chunks_find(digest, &is_new);
		queue_put(is_new ? &to_compress : &to_reorder, piece);
	}
	queue_leave(&to_compress);
	queue_leave(&to_reorder);
}

static void compress_all(void)
{
	struct piece *piece;

	while ((piece = queue_get(&to_compress))) {
		uLongf size = compressBound(piece->size);
		uint8_t *data = program_memory(malloc(size));
		if (compress(data, &size, piece->buffer->data + piece->at, piece->size) != Z_OK)
			errx(EXIT_FAILURE, "zlib cannot compress");
		chunk_set(piece->chunk, program_memory(realloc(data, size)), size);
		queue_put(&to_reorder, piece);
	}
	queue_leave(&to_reorder);
}

static void put(const void *data, size_t size)
{
	if (fwrite(data, 1, size, output) != size)
		err(EXIT_FAILURE, "cannot write");
}

/* The first time the chunk's data, whichever thread compressed it; later only its SHA-1. */
static void write_chunk(struct chunk *chunk)
{
	if (chunk->written) {
		fputc(RECORD_KNOWN, output);
		put(chunk->digest, SHA1_BYTES);
		return;
	}
	chunk_await(chunk);
	uint32_t size = (uint32_t)chunk->size;
	fputc(RECORD_NEW, output);
	put(&size, sizeof(size));
	put(chunk->data, chunk->size);
	chunk->written = true;
}

/* Into the list of its buffer, whose numbers rise. */
static void arrive(struct piece *piece)
{
	uint64_t number = piece->buffer->number;

	if (number >= arrived_room) {
		uint64_t room = 2 * number + 16;
		arrived = program_memory(realloc(arrived, room * sizeof(*arrived)));
		memset(arrived + arrived_room, 0, (room - arrived_room) * sizeof(*arrived));
		arrived_room = room;
	}
	struct piece **place = &arrived[number].first;
	while (*place && (*place)->number < piece->number)
		place = &(*place)->next;
	piece->next = *place;
	*place = piece;
}

static void reorder(void)
{
	struct piece *piece;
	uint64_t buffer = 0;

	while ((piece = queue_get(&to_reorder))) {
		arrive(piece);
		while (buffer < arrived_room) {
			struct arrived *now = &arrived[buffer];
			piece = now->first;
			if (!piece || piece->number != now->next)
				break;
			now->first = piece->next;
			now->next++;
			write_chunk(piece->chunk);
			buffer += piece->is_last;
			release(piece->buffer);
			free(piece);
		}
	}
	fflush(output);
}

static void work(unsigned int number)
{
	static const struct stage {
		const char *name;
		void (*run)(void);
	} many[] = {{"refine", refine}, {"deduplicate", deduplicate}, {"compress", compress_all}},
	  one[] = {{"fragment", fragment}, {"reorder", reorder}};
	const struct stage *stage = number < 2 ? &one[number] : &many[(number - 2) % 3];

	pthread_setname_np(pthread_self(), stage->name);
	stage->run();
}

int main(int argc, char **argv)
{
	uint8_t *data;
	char result[17];
	bool right;

	program_begin(argc, argv, &about);
	data = program_memory(malloc(program.size));
	dedup_generate(data, program.size);
	input = file_create();
	if (fwrite(data, 1, program.size, input) != program.size)
		err(EXIT_FAILURE, "cannot write");
	rewind(input);
	program_forget();

	rabin_init();
	chunks_init();
	output = file_create();
	queue_init(&to_refine, 1, false);
	queue_init(&to_deduplicate, program.threads, false);
	queue_init(&to_compress, program.threads, false);
	/*
	 * Its consumer waits for a chunk that an earlier stage may still have to compress, so no
	 * stage may wait for room in this queue.
	 */
	queue_init(&to_reorder, 2 * program.threads, true);
	program_enter(PARALLEL);
	program_run(2 + 3 * program.threads, work);
	program_stop();

	program.locks = chunks_locked();
	right = dedup_unpacks_to(output, data, program.size);
	snprintf(result, sizeof(result), "%016" PRIx64, file_fingerprint(output));
	chunks_clear();
	queue_destroy(&to_refine);
	queue_destroy(&to_deduplicate);
	queue_destroy(&to_compress);
	queue_destroy(&to_reorder);
	file_close(input);
	file_close(output);
	free(arrived);
	free(data);
	return program_end(result, right);
}
