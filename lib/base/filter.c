/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__i386__)
#define ARCHITECTURE AUDIT_ARCH_I386
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__arm__)
#define ARCHITECTURE AUDIT_ARCH_ARM
#else
#error "what does this processor call its system calls?"
#endif

struct machine {
	uint32_t accumulator, index;
	uint32_t memory[BPF_MEMWORDS];
};

/* A word of the data that a filter sees. */
static uint32_t load(const struct seccomp_data *data, uint32_t at)
{
	uint32_t word = 0;

	if (at <= sizeof(*data) - sizeof(word))
		memcpy(&word, (const char *)data + at, sizeof(word));
	return word;
}

static uint32_t calculate(unsigned int operation, uint32_t left, uint32_t right)
{
	switch (operation) {
	case BPF_ADD:
		return left + right;
	case BPF_SUB:
		return left - right;
	case BPF_MUL:
		return left * right;
	case BPF_DIV:
		return right ? left / right : 0;
	case BPF_OR:
		return left | right;
	case BPF_AND:
		return left & right;
	case BPF_LSH:
		return right < 32 ? left << right : 0;
	case BPF_RSH:
		return right < 32 ? left >> right : 0;
	case BPF_NEG:
		return -left;
	case BPF_XOR:
		return left ^ right;
	default:
		return 0;
	}
}

static bool compare(unsigned int operation, uint32_t left, uint32_t right)
{
	switch (operation) {
	case BPF_JEQ:
		return left == right;
	case BPF_JGT:
		return left > right;
	case BPF_JGE:
		return left >= right;
	default: /* BPF_JSET */
		return left & right;
	}
}

static uint32_t value_of(const struct machine *machine, const struct sock_filter *step,
			 const struct seccomp_data *data)
{
	switch (BPF_MODE(step->code)) {
	case BPF_ABS:
		return load(data, step->k);
	case BPF_MEM:
		return step->k < BPF_MEMWORDS ? machine->memory[step->k] : 0;
	case BPF_LEN:
		return sizeof(*data);
	default: /* BPF_IMM */
		return step->k;
	}
}

/* All but jumps and returns. */
static void execute(struct machine *machine, const struct sock_filter *step,
		    const struct seccomp_data *data)
{
	const uint32_t operand = BPF_SRC(step->code) == BPF_X ? machine->index : step->k;

	switch (BPF_CLASS(step->code)) {
	case BPF_LD:
		machine->accumulator = value_of(machine, step, data);
		break;
	case BPF_LDX:
		machine->index = value_of(machine, step, data);
		break;
	case BPF_ST:
		machine->memory[step->k % BPF_MEMWORDS] = machine->accumulator;
		break;
	case BPF_STX:
		machine->memory[step->k % BPF_MEMWORDS] = machine->index;
		break;
	case BPF_ALU:
		machine->accumulator = calculate(BPF_OP(step->code), machine->accumulator, operand);
		break;
	case BPF_MISC:
		if (BPF_MISCOP(step->code) == BPF_TAX)
			machine->index = machine->accumulator;
		else
			machine->accumulator = machine->index;
		break;
	}
}

/* Jumps lead forward only, so it comes to an end. */
static uint32_t run(const struct sock_fprog *filter, const struct seccomp_data *data)
{
	struct machine machine = {0};

	for (unsigned int at = 0; at < filter->len; at++) {
		const struct sock_filter *step = &filter->filter[at];
		const uint32_t operand = BPF_SRC(step->code) == BPF_X ? machine.index : step->k;

		if (BPF_CLASS(step->code) == BPF_RET)
			return BPF_RVAL(step->code) == BPF_A ? machine.accumulator : step->k;
		if (BPF_CLASS(step->code) != BPF_JMP)
			execute(&machine, step, data);
		else if (BPF_OP(step->code) == BPF_JA)
			at += step->k < filter->len ? step->k : filter->len;
		else
			at += compare(BPF_OP(step->code), machine.accumulator, operand) ? step->jt
											: step->jf;
	}
	return SECCOMP_RET_ALLOW; /* the kernel refuses such a filter */
}

static bool executes(uint32_t result)
{
	const uint32_t action = result & SECCOMP_RET_ACTION_FULL;
	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

static bool executes_or_fails(uint32_t result)
{
	return executes(result) || (result & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
}

static const struct tek_filtered_call *first_but(bool (*is_result)(uint32_t),
						 const struct sock_fprog *filter,
						 const struct tek_filtered_call *calls,
						 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct seccomp_data data = {.nr = calls[i].number, .arch = ARCHITECTURE};
		memcpy(data.args, calls[i].arguments, sizeof(data.args));
		if (!is_result(run(filter, &data)))
			return &calls[i];
	}
	return NULL;
}

const struct tek_filtered_call *tek__filter_kills(const struct sock_fprog *filter,
						  const struct tek_filtered_call *calls,
						  size_t count)
{
	return first_but(executes_or_fails, filter, calls, count);
}

const struct tek_filtered_call *tek__filter_refuses(const struct sock_fprog *filter,
						    const struct tek_filtered_call *calls,
						    size_t count)
{
	return first_but(executes, filter, calls, count);
}
