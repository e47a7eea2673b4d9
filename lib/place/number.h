/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The order of placement: threads of all processes of a run are numbered in one sequence, so that a
 * second process does not begin at the first CPU again. The numbers are in a file beside the tables
 * if `tek run` names it, else in memory that fork() shares.
 *
 * Needs no lock; async-signal-safe but for the start.
 */
#ifndef TEK_PLACE_NUMBER_H
#define TEK_PLACE_NUMBER_H

/* At the start. */
void tek__number_start(void);

/* The next number: 0, 1, 2 and so on. */
unsigned int tek__number_next(void);

/* The process is about to become another program: its first thread shall have this number. */
void tek__number_leave(unsigned int number);

/* The number for the first thread of a program: what was left for it, or the next. */
unsigned int tek__number_of_program(void);

#endif
