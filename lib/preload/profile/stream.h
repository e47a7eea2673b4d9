/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls by stream. Most only copy from a buffer or to it, and are counted. The calls that enter the
 * kernel take as long as all the other ones together, and each is timed. The stream shows before
 * the call which kind it is. The length of a line is unknown, so each call is timed where the
 * buffer is nearly used up. A concurrent operation of another thread may be mistaken for the call's
 * own, which costs a query of the clock.
 */
#ifndef TEK_PRELOAD_PROFILE_STREAM_H
#define TEK_PRELOAD_PROFILE_STREAM_H

#include "preload/profile/descriptor.h"

/* A call that is under way. */
struct tek_profile_stream {
	struct tek_profile_thread
		*thread; /* it is counted; NULL: it does not count, or goes to the kernel */
	struct tek_profile_transfer transfer;
	bool is_transfer; /* it goes to the kernel, or may */
	uint32_t weight;
	const char *at; /* where the stream was */
};

/*
 * Where the buffer has so much, a line of text hardly goes to the kernel: twice as much each time
 * that one did.
 */
#define TEK_PROFILE_ROOM ((size_t)512 << tek_prof__self.long_lines)

static inline size_t tek_prof__readable(const FILE *stream)
{
	return stream->_IO_read_end > stream->_IO_read_ptr
		       ? (size_t)(stream->_IO_read_end - stream->_IO_read_ptr)
		       : 0;
}

/* A stream that is written by lines says 0. */
static inline size_t tek_prof__writable(const FILE *stream)
{
	return stream->_IO_write_end > stream->_IO_write_ptr
		       ? (size_t)(stream->_IO_write_end - stream->_IO_write_ptr)
		       : 0;
}

/* A call of so many bytes, 0: unknown, on a stream with `room` bytes in its buffer. */
static inline struct tek_profile_stream tek_prof__stream(const FILE *stream, size_t bytes,
							 size_t room, const void *frame)
{
	struct tek_profile_stream call;

	call.is_transfer = true;
	if (room == 0 || bytes > room) {
		call.transfer = tek_prof__transfer(stream->_fileno, frame);
	} else if (bytes == 0 && room < TEK_PROFILE_ROOM) {
		call.transfer.part = 0;
		call.transfer.thread = tek_prof__enter(TEK_PROFILE_FILE, frame);
	} else {
		call.is_transfer = false;
		call.thread = tek_prof__enter_counted(TEK_PROFILE_FILE, frame, false, &call.weight);
	}
	return call;
}

/* It is over; `went`: it went to the kernel. */
static inline void tek_prof__streamed(struct tek_profile_stream *call, bool went, const void *site)
{
	if (call->is_transfer) {
		tek_prof__transferred(&call->transfer, site);
	} else if (call->thread) {
		tek_prof__leave_counted(call->thread, TEK_PROFILE_FILE, call->weight);
		if (__builtin_expect(went && !call->weight && tek_prof__self.long_lines < 20, 0))
			tek_prof__self.long_lines++;
	}
}

static inline struct tek_profile_stream tek_prof__reads(const FILE *stream, size_t bytes,
							const void *frame)
{
	struct tek_profile_stream call = tek_prof__stream(stream, bytes, tek_prof__readable(stream),
							  frame);

	call.at = stream->_IO_read_ptr;
	return call;
}

static inline void tek_prof__read(struct tek_profile_stream *call, const FILE *stream,
				  const void *site)
{
	tek_prof__streamed(call, stream->_IO_read_ptr < call->at, site);
}

static inline struct tek_profile_stream tek_prof__writes(const FILE *stream, size_t bytes,
							 const void *frame)
{
	struct tek_profile_stream call = tek_prof__stream(stream, bytes, tek_prof__writable(stream),
							  frame);

	call.at = stream->_IO_write_ptr;
	return call;
}

static inline void tek_prof__written(struct tek_profile_stream *call, const FILE *stream,
				     const void *site)
{
	tek_prof__streamed(call, stream->_IO_write_ptr < call->at, site);
}

#endif
