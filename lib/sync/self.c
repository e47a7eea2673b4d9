/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/self.h"

#include <sys/syscall.h>
#include <unistd.h>

__thread struct tek_sync_id tek__sync_id __attribute__((tls_model("initial-exec")));
__thread uintptr_t tek__sync_serial __attribute__((tls_model("initial-exec")));

pid_t tek__sync_ask_tid(void)
{
	tek__sync_id.tid = (pid_t)syscall(SYS_gettid);
	tek__sync_id.process = tek__process();
	return tek__sync_id.tid;
}

uintptr_t tek__sync_take_serial(void)
{
	static _Atomic uintptr_t last;
	return tek__sync_serial = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}
