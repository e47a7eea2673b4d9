/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The work of libtek-uthread.so before and after exec and spawn. preload/exec.c and preload/spawn.c
 * call it. In libtek.so life/replace.h, life/start.h and threads/process.h have these functions.
 */
#ifndef TEK_PRELOAD_UTHREAD_EXEC_H
#define TEK_PRELOAD_UTHREAD_EXEC_H

#include "exec/target.h"

#include <stdbool.h>

bool tek_ut__start(void);
bool tek_ut__is_confined(void);
bool tek_ut__exec_step_out(void);
void tek_ut__exec_step_in(void);
void tek_ut__exec_hide_table(void);
void tek_ut__exec_show_table(void);
void tek_ut__exec_name(const char *path, struct tek_verdict verdict);
void tek_ut__exec_name_lacking(const char *path, char *const environment[], const char *other);

#endif
