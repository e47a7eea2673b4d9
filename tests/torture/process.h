/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The process that is tortured: process.c. */
#ifndef TEK_TORTURE_PROCESS_H
#define TEK_TORTURE_PROCESS_H

/* Performs rounds until the supervisor ends it. Returns on errors only, with an exit status. */
int process_main(int fd);

/* Records the scheduling that this program began with. Returns an exit status. */
int report_main(int fd, unsigned int slot, unsigned int step);

extern const char *own_path;

#endif
