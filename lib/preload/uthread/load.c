/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Libraries that are loaded while threads are there: thread-local variables of theirs may lie in
 * storage that the loader does not know (uthread/tls_libraries.h).
 *
 * The loader looks at who calls it, for the directories that are written into the caller (DT_RPATH,
 * DT_RUNPATH, $ORIGIN). There the file is looked for by us, and opened by its path.  What is not
 * found so is opened in such a way that the loader sees the program's call, and nothing can be done
 * after it; the next library that is loaded makes up for that.
 */
#include "preload/deepbind.h"
#include "preload/uthread/real.h"
#include "uthread/engine.h"
#include "uthread/tls.h"
#include "uthread/zones.h"

#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* In the directories in which the loader would look, in its order. */
static bool find_in_list(const char *name, struct link_map *file, char path[PATH_BYTES])
{
	Dl_serinfo size;
	bool found = false;

	if (strchr(name, '/') || dlinfo(file, RTLD_DI_SERINFOSIZE, &size) != 0)
		return false;
	Dl_serinfo *list = malloc(size.dls_size);
	if (!list)
		return false;
	*list = size;
	if (dlinfo(file, RTLD_DI_SERINFO, list) == 0) {
		for (unsigned int i = 0; i < list->dls_cnt && !found; i++)
			found = snprintf(path, PATH_BYTES, "%s/%s", list->dls_serpath[i].dls_name,
					 name) < PATH_BYTES &&
				access(path, R_OK) == 0;
	}
	free(list);
	return found;
}

/* The path of a file that is found in the caller's directories. */
static bool find(const char *name, struct link_map *file, char path[PATH_BYTES])
{
	const bool is_path = strchr(name, '/') && !strchr(name, '$') && strlen(name) < PATH_BYTES;

	if (is_path)
		strcpy(path, name);
	return is_path ||
	       (file && (find_by_origin(name, file, path) || find_in_list(name, file, path)) &&
		access(path, R_OK) == 0);
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
	if (!tek__engine_runs())
		return;
	if (tek__engine.own_tls)
		tek__tls_libraries_changed();
	tek__zones_changed();
}

TEK_EXPORT void *dlopen(const char *name, int mode)
{
	/* With the C library's functions it would have threads, locks and waits of the kernel's. */
	if (mode & RTLD_DEEPBIND && tek__engine_runs())
		mode = tek__without_deepbind(name, mode);
	struct link_map *file = name ? file_of(__builtin_return_address(0)) : NULL;
	void *handle = NULL;
	if (name && !caller_counts(name, file))
		handle = TEK_REAL(dlopen)(name, mode);
	else if (name && !(mode & RTLD_NOLOAD))
		handle = open_found(name, file, mode);
	if (handle)
		libraries_changed();
	/*
	 * With optimisation this is a jump: the loader sees who called us, and says what is wrong.
	 */
	return handle ? handle : TEK_REAL(dlopen)(name, mode);
}

TEK_EXPORT int dlclose(void *handle)
{
	int error = TEK_REAL(dlclose)(handle);
	if (!error)
		libraries_changed();
	return error;
}
