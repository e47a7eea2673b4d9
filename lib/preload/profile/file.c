/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files by descriptor, and names of files. */
#include "base/export.h"
#include "preload/profile/descriptor.h"

#include <limits.h>

#define TEK_FILE(type, name, parameters, arguments) \
	TEK_TIMED(TEK_PROFILE_FILE, type, name, parameters, arguments)

/* One that reads or writes by the descriptor `fd`. */
#define TEK_TRANSFER(type, name, parameters, arguments) \
	TEK_EXPORT type name parameters \
	{ \
		TEK_PROFILE_TRANSFER = tek_prof__transfer(fd, TEK_FRAME); \
		type result_ = REAL(name) arguments; \
		tek_prof__transferred(&transfer_, TEK_SITE); \
		return result_; \
	}

/* A mode follows where a file may come into being. */
#define TEK_OPENS(name, parameters, ...) \
	TEK_EXPORT int name parameters \
	{ \
		mode_t mode = 0; \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
			va_list more; \
			va_start(more, flags); \
			mode = va_arg(more, mode_t); \
			va_end(more); \
		} \
		struct tek_profile_thread *counted = tek_prof__enter(TEK_PROFILE_FILE, TEK_FRAME); \
		int fd = REAL(name)(__VA_ARGS__, mode); \
		tek_prof__descriptor_forget(fd); \
		if (counted) \
			tek_prof__leave(counted, TEK_PROFILE_FILE); \
		return fd; \
	}

#define TEK_CREATES(name) \
	TEK_EXPORT int name(const char *path, mode_t mode) \
	{ \
		struct tek_profile_thread *counted = tek_prof__enter(TEK_PROFILE_FILE, TEK_FRAME); \
		int fd = REAL(name)(path, mode); \
		tek_prof__descriptor_forget(fd); \
		if (counted) \
			tek_prof__leave(counted, TEK_PROFILE_FILE); \
		return fd; \
	}

TEK_CREATES(creat)
TEK_CREATES(creat64)
TEK_OPENS(open, (const char *path, int flags, ...), path, flags)
TEK_OPENS(open64, (const char *path, int flags, ...), path, flags)
TEK_OPENS(openat, (int directory, const char *path, int flags, ...), directory, path, flags)
TEK_OPENS(openat64, (int directory, const char *path, int flags, ...), directory, path, flags)

TEK_EXPORT int close(int fd)
{
	struct tek_profile_thread *counted = tek_prof__enter(TEK_PROFILE_FILE, TEK_FRAME);

	/* Before: then another thread may have the same number for something else. */
	tek_prof__descriptor_forget(fd);
	int result = REAL(close)(fd);
	if (counted)
		tek_prof__leave(counted, TEK_PROFILE_FILE);
	return result;
}

/* Not for their time: what the new descriptor was, it is no more. */
TEK_EXPORT int dup2(int old, int new)
{
	int fd = REAL(dup2)(old, new);

	tek_prof__descriptor_forget(fd);
	return fd;
}

TEK_EXPORT int dup3(int old, int new, int flags)
{
	int fd = REAL(dup3)(old, new, flags);

	tek_prof__descriptor_forget(fd);
	return fd;
}

TEK_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	tek_prof__descriptors_forget(first, last);
	return REAL(close_range)(first, last, flags);
}

TEK_EXPORT void closefrom(int first)
{
	tek_prof__descriptors_forget(first < 0 ? 0 : (unsigned int)first, UINT_MAX);
	REAL(closefrom)(first);
}

TEK_TRANSFER(ssize_t, read, (int fd, void *buffer, size_t bytes), (fd, buffer, bytes))
TEK_TRANSFER(ssize_t, write, (int fd, const void *buffer, size_t bytes), (fd, buffer, bytes))
TEK_TRANSFER(ssize_t, pread, (int fd, void *buffer, size_t bytes, off_t at),
	     (fd, buffer, bytes, at))
TEK_TRANSFER(ssize_t, pread64, (int fd, void *buffer, size_t bytes, off64_t at),
	     (fd, buffer, bytes, at))
TEK_TRANSFER(ssize_t, pwrite, (int fd, const void *buffer, size_t bytes, off_t at),
	     (fd, buffer, bytes, at))
TEK_TRANSFER(ssize_t, pwrite64, (int fd, const void *buffer, size_t bytes, off64_t at),
	     (fd, buffer, bytes, at))
TEK_TRANSFER(ssize_t, readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
TEK_TRANSFER(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
TEK_TRANSFER(ssize_t, preadv, (int fd, const struct iovec *parts, int count, off_t at),
	     (fd, parts, count, at))
TEK_TRANSFER(ssize_t, preadv64, (int fd, const struct iovec *parts, int count, off64_t at),
	     (fd, parts, count, at))
TEK_TRANSFER(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at),
	     (fd, parts, count, at))
TEK_TRANSFER(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t at),
	     (fd, parts, count, at))
TEK_FILE(off_t, lseek, (int fd, off_t at, int from), (fd, at, from))
TEK_FILE(off64_t, lseek64, (int fd, off64_t at, int from), (fd, at, from))
TEK_FILE(int, fsync, (int fd), (fd))
TEK_FILE(int, fdatasync, (int fd), (fd))
TEK_FILE(int, syncfs, (int fd), (fd))
TEK_FILE(int, msync, (void *start, size_t bytes, int flags), (start, bytes, flags))
TEK_FILE(int, stat, (const char *path, struct stat *status), (path, status))
TEK_FILE(int, stat64, (const char *path, struct stat64 *status), (path, status))
TEK_FILE(int, lstat, (const char *path, struct stat *status), (path, status))
TEK_FILE(int, lstat64, (const char *path, struct stat64 *status), (path, status))
TEK_FILE(int, fstat, (int fd, struct stat *status), (fd, status))
TEK_FILE(int, fstat64, (int fd, struct stat64 *status), (fd, status))
TEK_FILE(int, fstatat, (int directory, const char *path, struct stat *status, int flags),
	 (directory, path, status, flags))
TEK_FILE(int, fstatat64, (int directory, const char *path, struct stat64 *status, int flags),
	 (directory, path, status, flags))
TEK_FILE(int, statx,
	 (int directory, const char *path, int flags, unsigned int mask, struct statx *status),
	 (directory, path, flags, mask, status))
TEK_FILE(int, access, (const char *path, int mode), (path, mode))
TEK_FILE(int, faccessat, (int directory, const char *path, int mode, int flags),
	 (directory, path, mode, flags))
TEK_FILE(int, truncate, (const char *path, off_t bytes), (path, bytes))
TEK_FILE(int, truncate64, (const char *path, off64_t bytes), (path, bytes))
TEK_FILE(int, ftruncate, (int fd, off_t bytes), (fd, bytes))
TEK_FILE(int, ftruncate64, (int fd, off64_t bytes), (fd, bytes))
TEK_FILE(int, posix_fallocate, (int fd, off_t at, off_t bytes), (fd, at, bytes))
TEK_FILE(int, posix_fallocate64, (int fd, off64_t at, off64_t bytes), (fd, at, bytes))
TEK_FILE(int, posix_fadvise, (int fd, off_t at, off_t bytes, int advice), (fd, at, bytes, advice))
TEK_FILE(int, posix_fadvise64, (int fd, off64_t at, off64_t bytes, int advice),
	 (fd, at, bytes, advice))
TEK_FILE(int, rename, (const char *from, const char *to), (from, to))
TEK_FILE(int, renameat, (int from, const char *old, int to, const char *name),
	 (from, old, to, name))
TEK_FILE(int, unlink, (const char *path), (path))
TEK_FILE(int, unlinkat, (int directory, const char *path, int flags), (directory, path, flags))
TEK_FILE(int, mkdir, (const char *path, mode_t mode), (path, mode))
TEK_FILE(int, rmdir, (const char *path), (path))
TEK_FILE(ssize_t, readlink, (const char *path, char *buffer, size_t bytes), (path, buffer, bytes))
TEK_FILE(DIR *, opendir, (const char *path), (path))
TEK_FILE(struct dirent *, readdir, (DIR * directory), (directory))
TEK_FILE(struct dirent64 *, readdir64, (DIR * directory), (directory))
TEK_FILE(int, closedir, (DIR * directory), (directory))
TEK_FILE(ssize_t, sendfile, (int to, int from, off_t *at, size_t bytes), (to, from, at, bytes))
TEK_FILE(ssize_t, sendfile64, (int to, int from, off64_t *at, size_t bytes), (to, from, at, bytes))
TEK_FILE(ssize_t, copy_file_range,
	 (int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned int flags),
	 (from, from_at, to, to_at, bytes, flags))
TEK_TRANSFER(ssize_t, __read_chk, (int fd, void *buffer, size_t bytes, size_t room),
	     (fd, buffer, bytes, room))
TEK_TRANSFER(ssize_t, __pread_chk, (int fd, void *buffer, size_t bytes, off_t at, size_t room),
	     (fd, buffer, bytes, at, room))
TEK_TRANSFER(ssize_t, __pread64_chk, (int fd, void *buffer, size_t bytes, off64_t at, size_t room),
	     (fd, buffer, bytes, at, room))
TEK_FILE(int, __open_2, (const char *path, int flags), (path, flags))
TEK_FILE(int, __open64_2, (const char *path, int flags), (path, flags))
TEK_FILE(int, __openat_2, (int directory, const char *path, int flags), (directory, path, flags))
TEK_FILE(int, __openat64_2, (int directory, const char *path, int flags), (directory, path, flags))
TEK_FILE(int, __xstat, (int version, const char *path, struct stat *status),
	 (version, path, status))
TEK_FILE(int, __lxstat, (int version, const char *path, struct stat *status),
	 (version, path, status))
TEK_FILE(int, __fxstat, (int version, int fd, struct stat *status), (version, fd, status))
TEK_FILE(int, __xstat64, (int version, const char *path, struct stat64 *status),
	 (version, path, status))
TEK_FILE(int, __lxstat64, (int version, const char *path, struct stat64 *status),
	 (version, path, status))
TEK_FILE(int, __fxstat64, (int version, int fd, struct stat64 *status), (version, fd, status))
TEK_TRANSFER(ssize_t, preadv2, (int fd, const struct iovec *parts, int count, off_t at, int flags),
	     (fd, parts, count, at, flags))
TEK_TRANSFER(ssize_t, preadv64v2,
	     (int fd, const struct iovec *parts, int count, off64_t at, int flags),
	     (fd, parts, count, at, flags))
TEK_TRANSFER(ssize_t, pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int flags),
	     (fd, parts, count, at, flags))
TEK_TRANSFER(ssize_t, pwritev64v2,
	     (int fd, const struct iovec *parts, int count, off64_t at, int flags),
	     (fd, parts, count, at, flags))
TEK_FILE(int, fallocate, (int fd, int mode, off_t at, off_t bytes), (fd, mode, at, bytes))
TEK_FILE(int, fallocate64, (int fd, int mode, off64_t at, off64_t bytes), (fd, mode, at, bytes))
TEK_FILE(int, sync_file_range, (int fd, off64_t at, off64_t bytes, unsigned int flags),
	 (fd, at, bytes, flags))
TEK_FILE(ssize_t, splice,
	 (int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned int flags),
	 (from, from_at, to, to_at, bytes, flags))
TEK_FILE(ssize_t, tee, (int from, int to, size_t bytes, unsigned int flags),
	 (from, to, bytes, flags))
TEK_TRANSFER(ssize_t, vmsplice,
	     (int fd, const struct iovec *parts, size_t count, unsigned int flags),
	     (fd, parts, count, flags))
TEK_TRANSFER(ssize_t, send, (int fd, const void *buffer, size_t bytes, int flags),
	     (fd, buffer, bytes, flags))
TEK_TRANSFER(ssize_t, sendto,
	     (int fd, const void *buffer, size_t bytes, int flags, __CONST_SOCKADDR_ARG address,
	      socklen_t length),
	     (fd, buffer, bytes, flags, address, length))
TEK_TRANSFER(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
	     (fd, message, flags))
TEK_TRANSFER(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned int count, int flags),
	     (fd, messages, count, flags))

TEK_EXPORT void sync(void)
{
	struct tek_profile_thread *counted = tek_prof__enter(TEK_PROFILE_FILE, TEK_FRAME);

	REAL(sync)();
	if (counted)
		tek_prof__leave(counted, TEK_PROFILE_FILE);
}
