/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/here.h"

__thread struct tek_here tek__here;

#if !defined(__x86_64__)
__attribute__((noinline)) struct tek_here *tek__here_find(void)
{
	return &tek__here;
}
#endif
