/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The connection to tekd: one request, one reply, and NOTICEs in between (abi/tek_message.h, the
 * daemon's socket).
 *
 * No function waits much longer than a second, whichever process listens; a daemon that was silent
 * for so long is not called for ten. The program may close the descriptor, or put a file of its own
 * there: then the connection is lost, and the next request makes a new one.
 *
 * All functions need the lock (threads/process.h).  errno stays as it is, no signal comes of
 * them, and none is a cancellation point.
 */
#ifndef TEK_MEDIATE_CONNECTION_H
#define TEK_MEDIATE_CONNECTION_H

#include "tek_abi.h"

#include <stdbool.h>

/*
 * The number of the connection, as long as it is not known to be lost; 0: there is none.  Each
 * has another one.
 */
unsigned int tek__connection(void);

/* Whether the descriptor is still what it was; if not the connection is lost. */
bool tek__connection_is_open(void);

/* Make one, if there is none. It is not known then whether tekd has anything for this process. */
bool tek__connection_open(void);
void tek__connection_close(const char *reason);

/*
 * Send a request and get its reply; `notified` is called for each NOTICE in between. The caller
 * fills in what follows `number`. False: the connection is lost.
 */
typedef void tek_notified(const struct tek_reply *reply);
bool tek__connection_ask(unsigned int kind, struct tek_request *request, struct tek_reply *reply,
			 tek_notified *notified);

/* Take what has come unasked, without waiting. */
void tek__connection_listen(tek_notified *notified);

/*
 * The reason of a failure, for people: the rest of a sentence, fit for a terminal; "": no process
 * listens. It comes from a reply, or from an error here.
 */
const char *tek__connection_why(void);
void tek__connection_note_why(const struct tek_reply *reply);

/* In the child of a fork: it is the parent's. */
void tek__connection_forget(void);

#endif
