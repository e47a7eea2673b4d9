/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/frame.h"

#include "uthread/tick.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USUAL_BYTES 4096

void tek_ut__frame_start(void)
{
	tek_ut__tick_send((pid_t)syscall(SYS_gettid));
}

size_t tek_ut__frame_bytes(void)
{
	const size_t most = (size_t)getauxval(AT_MINSIGSTKSZ),
		     measured = tek_ut__tick_frame_bytes();

	if (measured)
		return measured;
	return most ? most : USUAL_BYTES;
}
