/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/file.h"

#include "profile/clock.h"
#include "profile/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_BYTES \
	((size_t)TEK_PROFILE_BLOCKS_OFFSET + \
	 (size_t)TEK_PROFILE_MAX_BLOCKS * TEK_PROFILE_BLOCK_BYTES)

#define THERE_WORDS (TEK_PROFILE_MAX_THREADS / 64)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define NS_PER_MS 1000000

/* One process may run so many programs one after the other. */
#define MOST_PROGRAMS 100000

TEK_ABI_ASSERT(TEK_PROFILE_THREADS_OFFSET +
		       (unsigned long long)TEK_PROFILE_MAX_THREADS * TEK_PROFILE_THREAD_BYTES ==
	       TEK_PROFILE_BLOCKS_OFFSET);
TEK_ABI_ASSERT(TEK_PROFILE_THERE_OFFSET >= sizeof(struct tek_profile_header));
TEK_ABI_ASSERT(TEK_PROFILE_THERE_OFFSET + THERE_WORDS * sizeof(tek_u64) <=
	       TEK_PROFILE_MODULES_OFFSET);
TEK_ABI_ASSERT(TEK_PROFILE_OBJECTS_OFFSET >= sizeof(struct tek_profile_thread));
TEK_ABI_ASSERT(TEK_PROFILE_OBJECTS_OFFSET +
		       TEK_PROFILE_OBJECTS * sizeof(struct tek_profile_object) <=
	       TEK_PROFILE_THREAD_BYTES);

bool tek_prof__counts;
uint64_t tek_prof__rate = NS_PER_MS;
struct tek_profile_header *tek_prof__file;
static char directory[3072];
static char path[sizeof(directory) + 64];
static pid_t only_children_of; /* 0: all processes */
static uint32_t spare_thread;  /* taken, and not used; 0: none */

/* System calls, and not the C library's functions: some of those are ours, and count. */

/*
 * The same for a kernel before 5.14.  The file is opened again: a descriptor that stays could be
 * closed by the program.
 */
static bool allocate(size_t at, size_t bytes)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return false;
		/* Both are numbers of 64 bits: with 32, two arguments each. */
#if __SIZEOF_LONG__ == 4
	bool done = syscall(SYS_fallocate, fd, 0, at, 0L, bytes, 0L) == 0;
#else
	bool done = syscall(SYS_fallocate, fd, 0, at, bytes) == 0;
#endif
	syscall(SYS_close, fd);
	return done;
}

bool tek_prof__file_populate(struct tek_profile_header *file, size_t at, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t from = at & ~(page - 1), to = (at + bytes + page - 1) & ~(page - 1);
	char *start = (char *)file + from;
	int saved = errno;
	bool done = mprotect(start, to - from, PROT_READ | PROT_WRITE) == 0;

	if (done && syscall(SYS_madvise, start, to - from, MADV_POPULATE_WRITE) != 0)
		done = errno == EINVAL && allocate(from, to - from);
	errno = saved;
	return done;
}

void tek_prof__file_times(void)
{
	struct tek_profile_header *file = tek_prof__file;

	if (!file)
		return;
	__atomic_store_n(&file->last_ns, tek_prof__monotonic_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&file->last_ticks, tek_prof__ticks(), __ATOMIC_RELAXED);
}

static int create(void)
{
	for (int program = 0; program < MOST_PROGRAMS; program++) {
		snprintf(path, sizeof(path), "%s/%d-%d.profile", directory, (int)getpid(), program);
		int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
				      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

/* The end of the program's path, which says more than its beginning. */
static void note_program(struct tek_profile_header *file)
{
	char path[4096];
	ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path));
	size_t room = sizeof(file->program) - 1;

	if (length <= 0)
		return;
	size_t bytes = (size_t)length < room ? (size_t)length : room;
	memcpy(file->program, path + (size_t)length - bytes, bytes);
}

static const char *make(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < FILE_BYTES)
		return "its limit of the size of files (ulimit -f) is too low";
	int fd = create();
	if (fd < 0)
		return "its file cannot be made";
	struct tek_profile_header *file = MAP_FAILED;
	if (syscall(SYS_ftruncate, fd, (long)FILE_BYTES) == 0)
		file = mmap(NULL, FILE_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	syscall(SYS_close, fd);
	if (file == MAP_FAILED)
		return "its file cannot be mapped";
	if (!tek_prof__file_populate(file, 0,
				     TEK_PROFILE_THERE_OFFSET + THERE_WORDS * sizeof(tek_u64))) {
		munmap(file, FILE_BYTES);
		return "there is no room for its file";
	}
	file->version = TEK_PROFILE_VERSION;
	file->clock = tek_prof__counts ? TEK_PROFILE_CLOCK_COUNTER : TEK_PROFILE_CLOCK_MONOTONIC;
	file->pid = (tek_u32)getpid();
	file->parent = (tek_u32)getppid();
	note_program(file);
	file->start_ns = tek_prof__monotonic_ns();
	file->start_ticks = tek_prof__ticks();
	tek_prof__file = file;
	tek_prof__file_times();
	__atomic_store_n(&file->magic, TEK_PROFILE_MAGIC, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_meant(void)
{
	return !only_children_of || getppid() == only_children_of;
}

bool tek_prof__file_is_for(bool is_child)
{
	return is_child ? !only_children_of : is_meant();
}

void tek_prof__file_replaced(bool is_replaced)
{
	struct tek_profile_header *file = tek_prof__file;

	/* A child by vfork() has the file of its parent, which goes on. */
	if (file && file->pid == (tek_u32)getpid())
		file->replaced = is_replaced;
}

const char *tek_prof__file_make(const char *variable)
{
	const char *parent = strchr(variable, ':');
	char *path = NULL;

	if (parent)
		only_children_of = (pid_t)strtol(parent + 1, &path, 10);
	if (!path || path[0] != ':' || path[1] != '/' || strlen(path + 1) >= sizeof(directory))
		return "TEK_PROFILE is not as tek profile sets it";
	tek_prof__counts = false;
#if defined(__x86_64__) || defined(__aarch64__)
	if (strncmp(variable, "COUNTER@", 8) == 0) {
		tek_prof__rate = strtoull(variable + 8, NULL, 10);
		tek_prof__counts = tek_prof__rate != 0;
	}
#endif
	if (!tek_prof__counts)
		tek_prof__rate = NS_PER_MS;
	strcpy(directory, path + 1);
	return is_meant() ? make() : NULL;
}

void tek_prof__file_forked(void)
{
	struct tek_profile_header *parents = tek_prof__file;
	int saved = errno;

	if (!parents)
		return;
	tek_prof__file = NULL;
	spare_thread = 0;
	if (is_meant() && !make())
		tek_prof__modules_copy(tek_prof__file, parents);
	/*
	 * The parent goes on counting in its own file. A thread that forked in a signal handler
	 * returns to a call that still writes there: these writes go to memory that is never read.
	 */
	(void)mmap(parents, FILE_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	errno = saved;
}

static tek_u64 *there(uint32_t number)
{
	return (tek_u64 *)((char *)tek_prof__file + TEK_PROFILE_THERE_OFFSET) + (number - 1) / 64;
}

static tek_u64 bit(uint32_t number)
{
	return UINT64_C(1) << (number - 1) % 64;
}

bool tek_prof__file_has(uint32_t number)
{
	return number - 1 < TEK_PROFILE_MAX_THREADS &&
	       __atomic_load_n(there(number), __ATOMIC_ACQUIRE) & bit(number);
}

/* Counts up to the limit and hardly above it, so that it does not come round. */
static uint32_t take(tek_u32 *counter, uint32_t limit)
{
	if (__atomic_load_n(counter, __ATOMIC_RELAXED) >= limit)
		return limit;
	return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

void tek_prof__file_give_back_thread(uint32_t number)
{
	uint32_t none = 0;

	/* Of several at once one is enough: a thread creator that was refused tries again later. */
	__atomic_compare_exchange_n(&spare_thread, &none, number, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

uint32_t tek_prof__file_take_thread(void)
{
	uint32_t spare = __atomic_exchange_n(&spare_thread, 0, __ATOMIC_ACQUIRE);

	if (spare)
		return spare;
	uint32_t at = take(&tek_prof__file->threads, TEK_PROFILE_MAX_THREADS);

	if (at >= TEK_PROFILE_MAX_THREADS ||
	    !tek_prof__file_populate(tek_prof__file,
				     TEK_PROFILE_THREADS_OFFSET +
					     (size_t)at * TEK_PROFILE_THREAD_BYTES,
				     TEK_PROFILE_THREAD_BYTES))
		return 0;
	__atomic_fetch_or(there(at + 1), bit(at + 1), __ATOMIC_RELEASE);
	return at + 1;
}

struct tek_profile_block *tek_prof__file_take_block(uint32_t thread, uint32_t sequence)
{
	uint32_t number = take(&tek_prof__file->blocks, TEK_PROFILE_MAX_BLOCKS);
	size_t at = TEK_PROFILE_BLOCKS_OFFSET + (size_t)number * TEK_PROFILE_BLOCK_BYTES;

	if (number >= TEK_PROFILE_MAX_BLOCKS ||
	    !tek_prof__file_populate(tek_prof__file, at, TEK_PROFILE_BLOCK_BYTES))
		return NULL;
	struct tek_profile_block *block = (struct tek_profile_block *)((char *)tek_prof__file + at);
	block->thread = thread;
	block->sequence = sequence;
	__atomic_store_n(&block->magic, TEK_PROFILE_BLOCK_MAGIC, __ATOMIC_RELEASE);
	return block;
}
