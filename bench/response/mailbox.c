/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mailbox.h"

void mailbox_put(struct mailbox *box, uint64_t message)
{
	pthread_mutex_lock(&box->lock);
	box->message = message;
	box->full = true;
	pthread_mutex_unlock(&box->lock);
	/* After the unlock, so that the receiver does not wake to a locked mutex. */
	pthread_cond_signal(&box->changed);
}

uint64_t mailbox_take(struct mailbox *box)
{
	pthread_mutex_lock(&box->lock);
	while (!box->full)
		pthread_cond_wait(&box->changed, &box->lock);
	box->full = false;
	uint64_t message = box->message;
	pthread_mutex_unlock(&box->lock);
	return message;
}
