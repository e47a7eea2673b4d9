/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * User-level threads as lib/sync waits for them: an engine has the functions, the locks call them.
 */
#ifndef TEK_BASE_SYNC_HOST_H
#define TEK_BASE_SYNC_HOST_H

#include "base/until.h"

/*
 * The functions of an engine of user-level threads for its threads. libtek-uthread.so has them;
 * libtek-sync.so finds them by name when it is loaded.
 */
struct tek_sync_host {
	/*
	 * The calling user-level thread; NULL: a kernel thread, which must not call the other
	 * functions.
	 */
	void *(*self)(void);
	/* Yields to the other threads of its worker. */
	void (*yield)(void);
	/*
	 * Waits for unpark(), which may have come before, until that time: 0, ETIMEDOUT, EINVAL.
	 * May return early. Signals are handled meanwhile; the call is not cancelled.
	 */
	int (*park)(struct tek_until until);
	/* By any thread; the caller keeps `thread` alive until this has returned. */
	void (*unpark)(void *thread);
};

#endif
