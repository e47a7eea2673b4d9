/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/state_effect.h"

#include <errno.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* Options that older headers do not have. */
enum {
	GET_TAGGED_ADDRESSES = 56,
	GET_IO_FLUSHER = 58,
	GET_PAC_KEYS = 61,
	SCHED_CORE = 62,
	SCHED_CORE_GET = 0,
	GET_SME_LENGTH = 64,
	SET_WRITE_EXECUTE = 65, /* of the memory, as the next ones */
	GET_WRITE_EXECUTE = 66,
	SET_MEMORY_MERGE = 67,
	GET_MEMORY_MERGE = 68,
	GET_RISCV_VECTOR = 70,
	GET_DEXCR = 72,
	GET_SHADOW_STACK = 74,
	SET_SHADOW_STACK = 75,
	LOCK_SHADOW_STACK = 76,
	TIMER_RESTORE_IDS = 77,
	FUTEX_HASH = 78,
	NAME_MAPPING = 0x53564d41, /* PR_SET_VMA */
};

/*
 * Options that read, or that set a property of the process or its memory. All other options, also
 * unknown ones, belong to the calling thread.
 */
static const int of_process[] = {
	PR_GET_PDEATHSIG,
	PR_GET_DUMPABLE,
	PR_SET_DUMPABLE,
	PR_GET_UNALIGN,
	PR_GET_KEEPCAPS,
	PR_GET_FPEMU,
	PR_GET_FPEXC,
	PR_GET_TIMING,
	PR_SET_TIMING,
	PR_GET_NAME,
	PR_GET_ENDIAN,
	PR_GET_SECCOMP,
	PR_CAPBSET_READ,
	PR_GET_TSC,
	PR_GET_SECUREBITS,
	PR_GET_TIMERSLACK,
	PR_MCE_KILL_GET,
	PR_SET_MM,
	PR_SET_PTRACER,
	PR_SET_CHILD_SUBREAPER,
	PR_GET_CHILD_SUBREAPER,
	PR_GET_NO_NEW_PRIVS,
	PR_GET_TID_ADDRESS,
	PR_SET_THP_DISABLE,
	PR_GET_THP_DISABLE,
	PR_MPX_ENABLE_MANAGEMENT,
	PR_MPX_DISABLE_MANAGEMENT,
	PR_SET_FP_MODE,
	PR_GET_FP_MODE,
	PR_SVE_GET_VL,
	PR_GET_SPECULATION_CTRL,
	GET_TAGGED_ADDRESSES,
	GET_IO_FLUSHER,
	GET_PAC_KEYS,
	GET_SME_LENGTH,
	SET_WRITE_EXECUTE,
	GET_WRITE_EXECUTE,
	SET_MEMORY_MERGE,
	GET_MEMORY_MERGE,
	GET_RISCV_VECTOR,
	GET_DEXCR,
	GET_SHADOW_STACK,
	LOCK_SHADOW_STACK,
	TIMER_RESTORE_IDS,
	FUTEX_HASH,
	NAME_MAPPING,
};

static bool is_of_process(int option)
{
	for (size_t i = 0; i < sizeof(of_process) / sizeof(of_process[0]); i++) {
		if (of_process[i] == option)
			return true;
	}
	return false;
}

struct tek_effect tek_ut__effect_of_prctl(unsigned long *argument)
{
	const int option = (int)argument[0];

	switch (option) {
	case PR_SET_PDEATHSIG:
		return tek_ut__binds;
	case PR_CAP_AMBIENT:
		return argument[1] == PR_CAP_AMBIENT_IS_SET ? tek_ut__ordinary : tek_ut__changes;
	case PR_SET_SECCOMP:
		return argument[1] == SECCOMP_MODE_STRICT ? tek_ut__effect_of_strict_mode()
							  : tek_ut__changes;
	case SCHED_CORE:
		return argument[1] == SCHED_CORE_GET ? tek_ut__ordinary
						     : tek_ut__effect_on_thread(argument, 2);
	case SET_SHADOW_STACK:
		return TEK_REFUSED(EOPNOTSUPP, "a shadow stack", "user-level threads have none");
	default:
		return is_of_process(option) ? tek_ut__ordinary : tek_ut__changes;
	}
}
