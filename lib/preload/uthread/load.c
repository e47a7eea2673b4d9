/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Libraries that are loaded while threads are there: thread-local variables of theirs may lie in
 * storage that the loader does not know (uthread/tls_libraries.h).
 *
 * The loader checks its caller for the directories that are written into it (DT_RPATH, DT_RUNPATH,
 * $ORIGIN). TEK searches them and opens the file by its path; the loader finds files outside them
 * for TEK, too. A file that is not found so is opened by a jump, so that the loader sees the
 * program's call. No code runs after that; the next library that is loaded makes up for it.
 */
#include "base/export.h"
#include "base/next.h"
#include "preload/deepbind.h"
#include "uthread/engine.h"
#include "uthread/posix/record.h"
#include "uthread/reserved.h"
#include "uthread/sections.h"
#include "uthread/tls.h"
#include "uthread/worker.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct link_map *file_of(void *caller)
{
	struct link_map *file;
	Dl_info info;

	return dladdr1(caller, &info, (void **)&file, RTLD_DL_LINKMAP) ? file : NULL;
}

/* Whether the file, or what it needs (DT_RPATH), is looked for in the caller's own directories. */
static bool caller_counts(const char *name, const struct link_map *file)
{
	if (!file || strchr(name, '$'))
		return true;
	for (const ElfW(Dyn) *entry = file->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_RPATH || (entry->d_tag == DT_RUNPATH && !strchr(name, '/')))
			return true;
	}
	return false;
}

enum { PATH_BYTES = 4096 };

/*
 * With the directory of the caller's file for $ORIGIN at its beginning. False: it is written in
 * another way.
 */
static bool find_by_origin(const char *name, struct link_map *file, char path[PATH_BYTES])
{
	static const char *const origins[] = {"$ORIGIN/", "${ORIGIN}/"};
	char directory[PATH_BYTES];

	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
		const size_t length = strlen(origins[i]);
		if (strncmp(name, origins[i], length) == 0 && !strchr(name + length, '$') &&
		    dlinfo(file, RTLD_DI_ORIGIN, directory) == 0)
			return snprintf(path, PATH_BYTES, "%s/%s", directory, name + length) <
			       PATH_BYTES;
	}
	return false;
}

/*
 * The directories in which the loader looks for what this file opens, to be freed; NULL: unknown.
 */
static Dl_serinfo *directories_of(struct link_map *file)
{
	Dl_serinfo size;

	if (!file || dlinfo(file, RTLD_DI_SERINFOSIZE, &size) != 0)
		return NULL;
	Dl_serinfo *list = malloc(size.dls_size);
	if (!list)
		return NULL;
	*list = size;
	if (dlinfo(file, RTLD_DI_SERINFO, list) == 0)
		return list;
	free(list);
	return NULL;
}

/*
 * How many of these are the caller's own.  Both lists end with the directories of the system, where
 * the loader prefers what ld.so.cache says: it searches these.
 */
static unsigned int count_own(const Dl_serinfo *list, const Dl_serinfo *ours)
{
	unsigned int own = list->dls_cnt, left = ours->dls_cnt;

	while (own && left &&
	       strcmp(list->dls_serpath[own - 1].dls_name, ours->dls_serpath[left - 1].dls_name) ==
		       0) {
		own--;
		left--;
	}
	return own;
}

/* Whether the loader may prefer a variant for this processor there, in a directory below. */
static bool has_variants(const char *directory)
{
	char path[PATH_BYTES];

	return snprintf(path, PATH_BYTES, "%s/glibc-hwcaps", directory) < PATH_BYTES &&
	       access(path, F_OK) == 0;
}

/*
 * In the caller's own directories, in the loader's order.  Where it is in none of them, `path` is
 * the name alone: the loader finds it for us as well as for the caller.
 */
static bool find_among(const char *name, const Dl_serinfo *list, const Dl_serinfo *ours,
		       char path[PATH_BYTES])
{
	const unsigned int own = count_own(list, ours);

	for (unsigned int i = 0; i < own; i++) {
		const char *directory = list->dls_serpath[i].dls_name;
		if (has_variants(directory))
			return false;
		if (snprintf(path, PATH_BYTES, "%s/%s", directory, name) < PATH_BYTES &&
		    access(path, R_OK) == 0)
			return true;
	}
	if (own == list->dls_cnt || strlen(name) >= PATH_BYTES)
		return false;
	strcpy(path, name);
	return true;
}

static bool find_in_list(const char *name, struct link_map *file, char path[PATH_BYTES])
{
	if (strchr(name, '/'))
		return false;
	Dl_serinfo *list = directories_of(file), *ours = directories_of(file_of(find_in_list));
	const bool found = list && ours && find_among(name, list, ours, path);
	free(list);
	free(ours);
	return found;
}

/* How it is opened by us as it would be by its caller; false: it is left to the caller. */
static bool find(const char *name, struct link_map *file, char path[PATH_BYTES])
{
	const bool is_path = strchr(name, '/') && !strchr(name, '$') && strlen(name) < PATH_BYTES;

	if (is_path)
		strcpy(path, name);
	return is_path || (file && ((find_by_origin(name, file, path) && access(path, R_OK) == 0) ||
				    find_in_list(name, file, path)));
}

/* The handle; NULL: it could not be opened in this way. */
__attribute__((noinline)) static void *open_found(const char *name, struct link_map *file, int mode)
{
	char path[PATH_BYTES];

	/* One that is loaded by this name already needs no search. */
	void *handle = TEK_REAL(dlopen)(name, mode | RTLD_NOLOAD);
	if (handle) {
		TEK_REAL(dlclose)(handle);
		return NULL;
	}
	return find(name, file, path) ? TEK_REAL(dlopen)(path, mode) : NULL;
}

static void libraries_changed(void)
{
	if (!tek_ut__engine_runs())
		return;
	if (tek_ut__engine.own_tls)
		tek_ut__tls_libraries_changed();
	tek_ut__sections_changed();
}

TEK_EXPORT void *dlopen(const char *name, int mode)
{
	/* With the C library's functions it would have threads, locks and waits of the kernel's. */
	if (mode & RTLD_DEEPBIND && tek_ut__engine_runs())
		mode = tek__without_deepbind(name, mode);
	struct link_map *file = name ? file_of(__builtin_return_address(0)) : NULL;
	void *handle = NULL;
	if (name && !caller_counts(name, file))
		handle = TEK_REAL(dlopen)(name, mode);
	else if (name && !(mode & RTLD_NOLOAD))
		handle = open_found(name, file, mode);
	if (handle)
		libraries_changed();
	/* With optimisation this is a jump: the loader sees our caller, and reports the error. */
	return handle ? handle : TEK_REAL(dlopen)(name, mode);
}

/* A file that a kernel thread opens in another namespace. */
struct request {
	Lmid_t namespace;
	const char *name;
	int mode;
	void *handle;
};

static void *open_elsewhere(void *argument)
{
	struct request *request = argument;

	request->handle = TEK_REAL(dlmopen)(request->namespace, request->name, request->mode);
	return NULL;
}

/*
 * The C library of a new namespace uses its own thread-local variables at once.  The loader gives
 * them their first values in storage of kernel threads only, so another thread than the first one
 * has the library opened by a new one.  False: none is to be had.
 */
static bool let_open_elsewhere(struct request *request)
{
	const uint64_t all = tek_ut__blockable_signals();
	uint64_t before;
	pthread_t opener;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	const int error = TEK_REAL(pthread_create)(&opener, NULL, open_elsewhere, request);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return !error && TEK_REAL(pthread_join)(opener, NULL) == 0;
}

static bool has_own_storage(void)
{
	return tek_ut__engine_runs() && tek_ut__engine.own_tls &&
	       tek_ut__here_self() != tek_ut__posix_first.thread;
}

/* The handle; NULL: it could not be opened in this way. */
__attribute__((noinline)) static void *open_in(Lmid_t namespace, const char *name,
					       struct link_map *file, int mode)
{
	struct request request = {namespace, name, mode, NULL};
	char path[PATH_BYTES];

	if (caller_counts(name, file)) {
		if (mode & RTLD_NOLOAD || !find(name, file, path))
			return NULL;
		request.name = path;
	}
	if (!has_own_storage() || namespace == LM_ID_BASE || !let_open_elsewhere(&request))
		open_elsewhere(&request);
	return request.handle;
}

TEK_EXPORT void *dlmopen(Lmid_t namespace, const char *name, int mode)
{
	struct link_map *file = name ? file_of(__builtin_return_address(0)) : NULL;
	void *handle = name ? open_in(namespace, name, file, mode) : NULL;

	if (handle)
		libraries_changed();
	/* As in dlopen(). */
	return handle ? handle : TEK_REAL(dlmopen)(namespace, name, mode);
}

TEK_EXPORT int dlclose(void *handle)
{
	int error = TEK_REAL(dlclose)(handle);
	if (!error)
		libraries_changed();
	return error;
}
