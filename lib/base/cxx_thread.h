/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The function of a std::thread of GNU's C++ library. All such threads have one start routine, in
 * that library. Its argument is a std::thread::_State: an object with a virtual function. Each type
 * of callable has a class of its own, so the vtable identifies lambdas and function objects. For a
 * plain or a member function the object also contains the function's address.
 *
 * The creator of the thread calls these, by base/start_routine.c. It must not hold TEK's lock
 * (threads/process.h), because tek_files.note() takes that.
 */
#ifndef TEK_BASE_CXX_THREAD_H
#define TEK_BASE_CXX_THREAD_H

#include "base/files.h"

#include <stdint.h>

/* The name in the type information of a class with this vtable; NULL: there is none. */
const char *tek__cxx_class_of(const struct tek_files *files, uintptr_t vtable);

/*
 * The address that identifies the callable of a std::thread: its function or, if that is unknown,
 * the vtable of its state. `routine` where the argument is no state.
 */
uintptr_t tek__cxx_function(const struct tek_files *files, uintptr_t routine, const void *argument);

#endif
