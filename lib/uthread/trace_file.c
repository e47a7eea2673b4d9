/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/trace_file.h"

#include "base/channel.h"
#include "base/descriptor.h"
#include "uthread/hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct tek_file_identity identity;
static struct tek_trace_header *header; /* shared with other processes */

/*
 * An empty file becomes a trace. Under the lock of the file: another process may be about to do the
 * same.
 */
static int begin_file(int fd)
{
	struct tek_trace_header first = {.magic = TEK_TRACE_MAGIC, .version = TEK_TRACE_VERSION};
	struct stat status;

	if (fstat(fd, &status))
		return errno;
	if (!S_ISREG(status.st_mode))
		return EBADMSG;
	if (status.st_size == 0) {
		if (ftruncate(fd, TEK_TRACE_HEADER_BYTES))
			return errno;
		if (pwrite(fd, &first, sizeof(first), 0) != (ssize_t)sizeof(first))
			return EIO;
		return 0;
	}
	ssize_t got = pread(fd, &first, sizeof(first), 0);
	bool ours = got == (ssize_t)sizeof(first) && first.magic == TEK_TRACE_MAGIC &&
		    first.version == TEK_TRACE_VERSION && status.st_size >= TEK_TRACE_HEADER_BYTES;
	return ours ? 0 : EBADMSG;
}

int tek_ut__trace_file_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (fd < 0)
		return errno;
	if (flock(fd, LOCK_EX)) {
		int error = errno;
		close(fd);
		return error;
	}
	int error = begin_file(fd);
	flock(fd, LOCK_UN);
	void *mapped = MAP_FAILED;
	if (!error) {
		mapped = mmap(NULL, TEK_TRACE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			      0);
		error = mapped == MAP_FAILED ? errno : 0;
	}
	if (error) {
		close(fd);
		return error;
	}
	header = mapped;
	tek__descriptor_file(fd, &identity);
	atomic_store(&tek_ut__hidden[TEK_HIDDEN_TRACE], tek_ut__hidden_place(fd));
	return 0;
}

/*
 * Makes room by writing: a page of a mapped file without room on the disk kills the process
 * (SIGBUS). A limit on the size of files, which would send SIGXFSZ, is checked before.
 */
static bool make_room(int file, uint64_t offset)
{
	static char zeros[4096];
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < offset + TEK_TRACE_BLOCK_BYTES)
		return false;
	for (size_t done = 0; done < TEK_TRACE_BLOCK_BYTES; done += sizeof(zeros)) {
		const struct iovec part = {.iov_base = zeros, .iov_len = sizeof(zeros)};
		const uint64_t at = offset + done;
		/*
		 * Not pwrite() of the C library: its symbol may be the engine's. The kernel takes
		 * two words of 32 bits, or one.
		 */
		if (syscall(SYS_pwritev, file, &part, 1, (long)at,
			    (long)(at >> (sizeof(long) * 4) >> (sizeof(long) * 4))) !=
		    (long)sizeof(zeros))
			return false;
	}
	return true;
}

struct tek_trace_block *tek_ut__trace_block_make(unsigned int worker, unsigned int sequence,
						 uint64_t start_ns)
{
	const int file = tek_ut__hidden_file(TEK_HIDDEN_TRACE);

	if (!header || !tek__descriptor_is(file, identity))
		return NULL;
	uint64_t number = __atomic_fetch_add(&header->blocks, 1, __ATOMIC_RELAXED);
	uint64_t offset = TEK_TRACE_HEADER_BYTES + number * TEK_TRACE_BLOCK_BYTES;
	if (!make_room(file, offset))
		return NULL;
	/* All pages now, so that the writer of a record does not wait for them. */
	struct tek_trace_block *block = mmap(NULL, TEK_TRACE_BLOCK_BYTES, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_POPULATE, file, (off_t)offset);
	if (block == MAP_FAILED)
		return NULL;
	block->worker = worker;
	block->pid = (tek_u32)getpid();
	block->sequence = sequence;
	block->start_ns = start_ns;
	strncpy((char *)block->program, tek__channel_program(), sizeof(block->program) - 1);
	__atomic_store_n(&block->magic, TEK_TRACE_BLOCK_MAGIC, __ATOMIC_RELEASE);
	return block;
}

void tek_ut__trace_block_done(struct tek_trace_block *block)
{
	if (block)
		munmap(block, TEK_TRACE_BLOCK_BYTES);
}
