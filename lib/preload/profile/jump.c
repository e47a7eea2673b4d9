/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A signal handler may jump out of a call that it interrupted: what comes then is not in it. */
#include "base/export.h"
#include "preload/profile/call.h"

#define TEK_JUMPS(name, type) \
	TEK_EXPORT void name(type target, int value) \
	{ \
		struct tek_profile_thread *thread = tek_prof__self.thread; \
		if (thread && tek_prof__is_own(thread) && thread->inside) \
			tek_prof__left(thread); \
		REAL(name)(target, value); \
		__builtin_unreachable(); \
	}

TEK_JUMPS(longjmp, jmp_buf)
TEK_JUMPS(_longjmp, jmp_buf)
TEK_JUMPS(siglongjmp, sigjmp_buf)
TEK_JUMPS(__longjmp_chk, jmp_buf)
