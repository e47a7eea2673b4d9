/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The function of a thread. Runtimes have one start routine for all of their threads; its argument
 * leads to the thread's own function:
 *
 *   GNU's C++ library   a std::thread::_State: cxx_thread.h
 *   GLib                a GThread: its function, or that of the GThreadPool; its name
 *   GNU's OpenMP        the function of the thread's first parallel region
 *   Qt                  a QThread: run() of its class, or what QThread::create() was given
 *   Rust                a Box<dyn FnOnce()>: its closure
 *   CPython             a method of an object: the name of its class, or of the threading.Thread
 *
 * Each address is checked before it is read: it lies in a segment of a loaded file, or the kernel
 * reports that memory is there, and no device. With an unexpected argument the start routine
 * counts, as in any other program.
 */
#ifndef TEK_BASE_START_ROUTINE_H
#define TEK_BASE_START_ROUTINE_H

#include "base/files.h"

#include <stdint.h>

struct tek_start_routine {
	uintptr_t function; /* the address that stands for what the thread runs, in a listed file */
	char name[16]; /* that the runtime will give or has for the thread, or of its class; "" */
};

/* By the creator. Not under the lock, which it takes; not in a signal handler. */
struct tek_start_routine tek__start_routine(const struct tek_files *files, uintptr_t routine,
					    const void *argument);

#endif
