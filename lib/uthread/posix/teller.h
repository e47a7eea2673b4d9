/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table's (uthread/table.h) data of threads of pthread programs: present from creation to end.
 */
#ifndef TEK_UTHREAD_POSIX_TELLER_H
#define TEK_UTHREAD_POSIX_TELLER_H

#include "uthread/table.h"

/* When the roles are known: opens the table. */
void tek_ut__posix_table_open(void);

#endif
