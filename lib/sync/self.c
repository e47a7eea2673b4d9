/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/self.h"

#include <sys/syscall.h>
#include <unistd.h>

__thread struct tek_sync_id tek_sync__id __attribute__((tls_model("initial-exec")));
__thread uintptr_t tek_sync__serial __attribute__((tls_model("initial-exec")));

pid_t tek_sync__ask_tid(void)
{
	tek_sync__id.tid = (pid_t)syscall(SYS_gettid);
	tek_sync__id.process = tek_sync__process();
	return tek_sync__id.tid;
}

uintptr_t tek_sync__take_serial(void)
{
	static _Atomic uintptr_t last;
	return tek_sync__serial = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}
