/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The processor's hint that a thread spins. */
#ifndef TEK_BASE_RELAX_H
#define TEK_BASE_RELAX_H

static inline void tek__relax_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
