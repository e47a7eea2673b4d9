/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/key.h"

#include "uthread/mutex.h"
#include "uthread/own.h"

#include <errno.h>
#include <stdatomic.h>

static struct {
	_Atomic uintptr_t generation; /* odd: it exists */
	void (*_Atomic destructor)(void *);
} keys[TEK_KEYS];

static bool exists(uintptr_t generation)
{
	return generation & 1;
}

int tek_ut__key_create(unsigned int *key, void (*destructor)(void *))
{
	for (unsigned int i = 0; i < TEK_KEYS; i++) {
		uintptr_t free = atomic_load_explicit(&keys[i].generation, memory_order_relaxed);
		if (exists(free) ||
		    !atomic_compare_exchange_strong(&keys[i].generation, &free, free + 1))
			continue;
		/* No thread has the key yet, so none has a value. */
		atomic_store_explicit(&keys[i].destructor, destructor, memory_order_release);
		*key = i;
		return 0;
	}
	return EAGAIN;
}

int tek_ut__key_delete(unsigned int key)
{
	if (key >= TEK_KEYS)
		return EINVAL;
	uintptr_t generation = atomic_load_explicit(&keys[key].generation, memory_order_relaxed);
	if (!exists(generation) ||
	    !atomic_compare_exchange_strong(&keys[key].generation, &generation, generation + 1))
		return EINVAL;
	return 0;
}

void *tek_ut__key_get(unsigned int key)
{
	const struct tek_own *own = tek_ut__own();

	if (!own || key >= TEK_KEYS)
		return NULL;
	const struct tek_values *values = own->values[key / TEK_KEYS_A_BLOCK];
	if (!values)
		return NULL;
	const struct tek_value *value = &values->value[key % TEK_KEYS_A_BLOCK];
	if (value->generation != atomic_load_explicit(&keys[key].generation, memory_order_relaxed))
		return NULL;
	return value->data;
}

int tek_ut__key_set(unsigned int key, void *data)
{
	if (key >= TEK_KEYS)
		return EINVAL;
	uintptr_t generation = atomic_load_explicit(&keys[key].generation, memory_order_relaxed);
	if (!exists(generation))
		return EINVAL;

	struct tek_own *own = data ? tek_ut__own_made() : tek_ut__own();
	if (!own)
		return data ? ENOMEM : 0;
	struct tek_values **values = &own->values[key / TEK_KEYS_A_BLOCK];
	if (!*values) {
		if (!data)
			return 0;
		*values = tek_ut__own_block();
		if (!*values)
			return ENOMEM;
		own->blocks++;
	}
	(*values)->value[key % TEK_KEYS_A_BLOCK] = (struct tek_value){.generation = generation,
								      .data = data};
	return 0;
}

/* Calls the destructor for one value. Returns whether there was one to destroy. */
static bool destroy(unsigned int key, struct tek_value *value)
{
	void *data = value->data;

	if (!data ||
	    value->generation != atomic_load_explicit(&keys[key].generation, memory_order_relaxed))
		return false;
	void (*destructor)(void *) = atomic_load_explicit(&keys[key].destructor,
							  memory_order_acquire);
	value->data = NULL;
	if (!destructor)
		return false;
	destructor(data);
	return true;
}

static bool destroy_all(struct tek_own *own)
{
	bool any = false;

	for (unsigned int i = 0; i < TEK_KEYS / TEK_KEYS_A_BLOCK; i++) {
		for (unsigned int j = 0; own->values[i] && j < TEK_KEYS_A_BLOCK; j++)
			any |= destroy(i * TEK_KEYS_A_BLOCK + j, &own->values[i]->value[j]);
	}
	return any;
}

void tek_ut__keys_end(void)
{
	struct tek_own *own = tek_ut__own();

	if (!own)
		return;
	for (unsigned int round = 0; round < TEK_KEY_ROUNDS && own->blocks; round++) {
		if (!destroy_all(own))
			break;
	}
	tek_ut__mutexes_end(own);
	tek_ut__own_drop();
}
