/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One message from one thread to another: a mutex and a condition variable. */
#ifndef APPLIANCE_MAILBOX_H
#define APPLIANCE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct mailbox {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool full;
	uint64_t message;
};

#define MAILBOX_INITIALIZER \
	{ \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

/* Leave a message. The box must be empty: sender and receiver take turns. */
void mailbox_put(struct mailbox *box, uint64_t message);

/* Wait for a message and take it. */
uint64_t mailbox_take(struct mailbox *box);

#endif
