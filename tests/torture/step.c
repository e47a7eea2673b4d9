/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "step.h"

#include <string.h>

enum argument { ARGUMENT_NONE, ARGUMENT_US, ARGUMENT_TEK, ARGUMENT_RT, ARGUMENT_NICE };

static struct op_info {
	const char *name;
	enum object object;
	enum argument argument;
	unsigned int weight; /* how often it is chosen */
} infos[OPS] = {
	[OP_LOCK] = {"lock", OBJECT_MUTEX, ARGUMENT_NONE, 120},
	[OP_TRYLOCK] = {"trylock", OBJECT_MUTEX, ARGUMENT_NONE, 20},
	[OP_TIMEDLOCK] = {"timedlock", OBJECT_MUTEX, ARGUMENT_US, 50},
	[OP_CLOCKLOCK] = {"clocklock", OBJECT_MUTEX, ARGUMENT_US, 30},
	[OP_UNLOCK] = {"unlock", OBJECT_NONE, ARGUMENT_NONE, 170},
	[OP_UNLOCK_FIRST] = {"unlock-first", OBJECT_NONE, ARGUMENT_NONE, 50},
	[OP_RDLOCK] = {"rdlock", OBJECT_RWLOCK, ARGUMENT_NONE, 30},
	[OP_WRLOCK] = {"wrlock", OBJECT_RWLOCK, ARGUMENT_NONE, 30},
	[OP_TIMEDRDLOCK] = {"timedrdlock", OBJECT_RWLOCK, ARGUMENT_US, 15},
	[OP_TIMEDWRLOCK] = {"timedwrlock", OBJECT_RWLOCK, ARGUMENT_US, 15},
	[OP_COND_WAIT] = {"cond-wait", OBJECT_COND, ARGUMENT_NONE, 20},
	[OP_COND_TIMEDWAIT] = {"cond-timedwait", OBJECT_COND, ARGUMENT_US, 30},
	[OP_SIGNAL] = {"signal", OBJECT_COND, ARGUMENT_NONE, 40},
	[OP_BROADCAST] = {"broadcast", OBJECT_COND, ARGUMENT_NONE, 20},
	[OP_CREATE] = {"create", OBJECT_SLOT, ARGUMENT_NONE, 30},
	[OP_JOIN] = {"join", OBJECT_SLOT, ARGUMENT_US, 30},
	[OP_CANCEL] = {"cancel", OBJECT_SLOT, ARGUMENT_NONE, 6},
	[OP_TEK] = {"tek", OBJECT_SLOT, ARGUMENT_TEK, 70},
	[OP_OTHER] = {"other", OBJECT_SLOT, ARGUMENT_NONE, 70},
	[OP_BATCH] = {"batch", OBJECT_SLOT, ARGUMENT_NONE, 15},
	[OP_IDLE] = {"idle", OBJECT_SLOT, ARGUMENT_NONE, 8},
	[OP_FIFO] = {"fifo", OBJECT_SLOT, ARGUMENT_RT, 8},
	[OP_RR] = {"rr", OBJECT_SLOT, ARGUMENT_RT, 8},
	[OP_RESET] = {"reset", OBJECT_SLOT, ARGUMENT_NONE, 10},
	[OP_NICE] = {"nice", OBJECT_SLOT, ARGUMENT_NICE, 15},
	[OP_ENTER] = {"enter", OBJECT_NONE, ARGUMENT_NONE, 40},
	[OP_LEAVE] = {"leave", OBJECT_NONE, ARGUMENT_NONE, 50},
	[OP_FOR] = {"for", OBJECT_NONE, ARGUMENT_US, 10},
	[OP_FORK] = {"fork", OBJECT_NONE, ARGUMENT_NONE, 3},
	[OP_SPAWN] = {"spawn", OBJECT_NONE, ARGUMENT_NONE, 2},
	[OP_EXEC] = {"exec", OBJECT_NONE, ARGUMENT_NONE, 1},
	[OP_DIE] = {"die", OBJECT_NONE, ARGUMENT_US, 2},
	[OP_SLEEP] = {"sleep", OBJECT_NONE, ARGUMENT_US, 110},
	[OP_SPIN] = {"spin", OBJECT_NONE, ARGUMENT_US, 40},
	[OP_EXIT] = {"exit", OBJECT_NONE, ARGUMENT_NONE, 5},
	[OP_BREAK] = {"break", OBJECT_NONE, ARGUMENT_NONE, 0},
};

static const char *const object_names[] = {"", "mutex", "rwlock", "cond", "slot"};

enum object step_object(enum op op)
{
	return infos[op].object;
}

int step_lock(const struct step *step)
{
	/* The mutex of each condition variable. */
	static const int of_cond[CONDS] = {MUTEX_NORMAL, MUTEX_ROBUST, MUTEX_ADAPTIVE};

	switch (step_object(step->op)) {
	case OBJECT_MUTEX:
		return step->object;
	case OBJECT_RWLOCK:
		return MUTEXES + step->object;
	case OBJECT_COND:
		return step->op == OP_COND_WAIT || step->op == OP_COND_TIMEDWAIT
			       ? of_cond[step->object]
			       : -1;
	default:
		return -1;
	}
}

bool step_sets_policy(enum op op)
{
	return op >= OP_TEK && op <= OP_NICE;
}

bool step_is_cancellation_point(enum op op)
{
	return op == OP_COND_WAIT || op == OP_COND_TIMEDWAIT || op == OP_JOIN || op == OP_SLEEP;
}

void step_print(const struct step *step, char *text, size_t size)
{
	const struct op_info *info = &infos[step->op];
	int used = snprintf(text, size, "%u %s", step->slot, info->name);

	if (info->object)
		used += snprintf(text + used, size - (size_t)used, " %s %u",
				 object_names[info->object], step->object);
	if (info->argument)
		snprintf(text + used, size - (size_t)used, " %d", step->argument);
}

static unsigned int count_of(enum object object)
{
	static const unsigned int counts[] = {1, MUTEXES, RWLOCKS, CONDS, SLOTS};

	return counts[object];
}

static int find_op(const char *name)
{
	int op = 0;

	while (op < OPS && strcmp(infos[op].name, name) != 0)
		op++;
	return op;
}

bool steps_without(const char *name)
{
	const int op = find_op(name);

	if (op == OPS)
		return false;
	infos[op].weight = 0;
	return true;
}

bool step_parse(const char *line, struct step *step)
{
	char name[32], object_name[16];
	unsigned int slot, object = 0;
	int used = 0;

	*step = (struct step){0};
	if (sscanf(line, "%u %31s%n", &slot, name, &used) != 2 || slot >= SLOTS)
		return false;
	const int op = find_op(name);
	if (op == OPS)
		return false;
	line += used;
	if (infos[op].object) {
		if (sscanf(line, "%15s %u%n", object_name, &object, &used) != 2 ||
		    strcmp(object_name, object_names[infos[op].object]) != 0)
			return false;
		line += used;
	}
	if (object >= count_of(infos[op].object))
		return false;
	step->slot = (uint8_t)slot;
	step->op = (uint8_t)op;
	step->object = (uint8_t)object;
	return !infos[op].argument || sscanf(line, "%d", &step->argument) == 1;
}

bool steps_read(struct step_list *list, FILE *file)
{
	char line[128];

	list->count = 0;
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (list->count == MOST_STEPS || !step_parse(line, &list->steps[list->count]))
			return false;
		list->count++;
	}
	return true;
}

void steps_write(const struct step_list *list, FILE *file)
{
	char text[128];

	for (unsigned int i = 0; i < list->count; i++) {
		step_print(&list->steps[i], text, sizeof(text));
		fprintf(file, "%s\n", text);
	}
}

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*state >> 33) % limit);
}

static enum op random_op(uint64_t *state)
{
	unsigned int sum = 0;

	for (int op = 0; op < OPS; op++)
		sum += infos[op].weight;
	unsigned int left = random_below(state, sum);
	for (int op = 0; op < OPS; op++) {
		if (left < infos[op].weight)
			return (enum op)op;
		left -= infos[op].weight;
	}
	return OP_SLEEP;
}

static int32_t random_argument(uint64_t *state, enum argument argument)
{
	static const int32_t real_time[] = {1, 5, 20, 28, 29, 40, 60};

	switch (argument) {
	case ARGUMENT_US:
		return (int32_t)random_below(state, random_below(state, 8) ? 200 : 2000);
	case ARGUMENT_TEK:
		return random_below(state, 2) ? 0 : (int32_t)random_below(state, 40) - 20;
	case ARGUMENT_RT:
		return real_time[random_below(state, 7)];
	case ARGUMENT_NICE:
		return (int32_t)random_below(state, 12) - 5;
	default:
		return 0;
	}
}

static struct step random_step(uint64_t *state, uint32_t slot)
{
	const enum op op = random_op(state);
	const struct op_info *info = &infos[op];
	uint32_t object = random_below(state, count_of(info->object));

	if (op == OP_CREATE)
		object = WORKERS + object % (SLOTS - WORKERS);
	else if (op == OP_JOIN && slot < SLOTS - 1)
		object = slot + 1 + object % (SLOTS - 1 - slot);
	else if (info->object == OBJECT_SLOT && op != OP_CANCEL && random_below(state, 2))
		object = slot;
	return (struct step){.slot = (uint8_t)slot,
			     .op = (uint8_t)op,
			     .object = (uint8_t)object,
			     .argument = random_argument(state, info->argument)};
}

void steps_random(struct step_list *list, uint64_t seed)
{
	uint64_t state = seed * 2862933555777941757u + 3037000493u;
	/* Few locks make many waits. */
	const uint32_t count = 100 + random_below(&state, 400);

	list->count = 0;
	while (list->count < count) {
		/* A thread that another one creates is short. */
		uint32_t slot = random_below(&state, 6) ? random_below(&state, WORKERS)
							: random_below(&state, SLOTS);
		list->steps[list->count++] = random_step(&state, slot);
	}
}

void steps_plant(struct step_list *list, uint64_t seed)
{
	uint64_t state = seed + 1;

	if (list->count == MOST_STEPS)
		list->count--;
	const uint32_t place = random_below(&state, list->count + 1);
	memmove(&list->steps[place + 1], &list->steps[place],
		(list->count - place) * sizeof(list->steps[0]));
	list->steps[place] = (struct step){.slot = (uint8_t)random_below(&state, WORKERS),
					   .op = OP_BREAK};
	list->count++;
}
