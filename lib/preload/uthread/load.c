/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Libraries that are loaded while threads are there: thread-local variables of theirs may lie in storage that the
 * loader does not know (uthread/tls_libraries.h).
 *
 * The loader looks at who calls it, for the directories that are written into the caller (DT_RUNPATH, $ORIGIN).
 * Where that counts it is called in such a way that it sees the program's call, and nothing can be done after it; the
 * next library that is loaded makes up for that.
 */
#include "preload/deepbind.h"
#include "preload/uthread/real.h"
#include "uthread/engine.h"
#include "uthread/tls.h"
#include "uthread/zones.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

/* Whether the file, or what it needs (DT_RPATH), is looked for in the caller's own directories. */
static bool caller_counts(const char *name, void *caller)
{
	struct link_map *object;
	Dl_info info;

	if (strchr(name, '$'))
		return true;
	if (!dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP))
		return true;
	for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_RPATH || (entry->d_tag == DT_RUNPATH && !strchr(name, '/')))
			return true;
	}
	return false;
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
	/* With optimisation this is a jump: the loader sees who called us. */
	if (!name || caller_counts(name, __builtin_return_address(0)))
		return TEK_REAL(dlopen)(name, mode);
	void *handle = TEK_REAL(dlopen)(name, mode);
	if (handle)
		libraries_changed();
	return handle;
}

TEK_EXPORT int dlclose(void *handle)
{
	int error = TEK_REAL(dlclose)(handle);
	if (!error)
		libraries_changed();
	return error;
}
