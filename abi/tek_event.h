/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The event file of a run: struct tek_event after struct tek_event, each appended with one write.
 * $TEK_EVENTS names it; without that variable a process writes its warnings to its standard error
 * instead.
 */
#ifndef TEK_EVENT_ABI_H
#define TEK_EVENT_ABI_H

#include "tek_types.h"

#define TEK_EVENT_MAGIC 0x564b4554u /* "TEKV", little-endian */

#define TEK_EVENT_REFUSED \
	1u /* the Fast Region was refused; error says why, and text if tekd was asked */
#define TEK_EVENT_OVERRAN \
	2u                       /* a thread used up its budget: value[0] ns in value[1] ns;
                                    it cannot come back for value[2] ns.  If tekd took it back text
                                    says what it used, and value[1] and value[2] are 0 */
#define TEK_EVENT_NOT_COVERED 3u /* TEK cannot ride in program; text says why */
#define TEK_EVENT_SUMMARY \
	4u                      /* a thread that was Fast has ended: value[0] ns in the
                                    region, value[1] stays, value[2] context switches while
                                    alive, value[3] CPU time in ns, error how often the guard
                                    sent it back */
#define TEK_EVENT_BAD_OPTION 5u /* an environment variable was not understood; text says which */
#define TEK_EVENT_STACK_HIGH \
	6u /* a thread's stack is nearly used up: value[0] bytes certainly used, value[1] at most,
	      of value[2]; text is its role.  Once for each kind */
#define TEK_EVENT_OVERFLOW \
	7u /* a thread ran out of its stack of value[0] bytes, at the address value[1]; error is 1
	      if TEK chose that size; text is its role.  FRAMEs follow */
#define TEK_EVENT_FRAME \
	8u /* a frame of the same thread's backtrace: value[0] its number, from 1 for the
	      innermost, 0 for the function that the thread runs; value[1] the address in the ELF
	      headers of the file that text names, value[2] the same in the process, value[3] how
	      many frames behind it were left out, because they repeat those before it or are
	      neither innermost nor outermost */
#define TEK_EVENT_NOT_PLACED \
	9u /* tekd did not put a thread into the group value[0]; error and text say why.  Once a
	      process */
#define TEK_EVENT_LOCKS \
	10u /* a process with locks of kind auto ends: they went value[0] times from spinning to
	       sleeping and value[1] times back.  LOCKs follow */
#define TEK_EVENT_LOCK \
	11u /* one of these locks: value[0] and value[1] as in LOCKS; value[2] its address in the
	       ELF headers of the file that text names, value[3] the same in the process.
	       Without text it lies in no file */
#define TEK_EVENT_INVERSIONS \
	12u /* a process ends in which Fast threads waited for others value[0] times, for value[1]
	       ns; threads were lifted value[2] times, for value[3] ns.  INVERSIONs follow */
#define TEK_EVENT_INVERSION \
	13u /* one of its struct tek_inversion: tid and thread are the waiter's; error is kind,
	       value[0] waits, value[1] waited_ns, value[2] wait_ns, value[3] cost_ns.  A HOLDER
	       and INVERSION_PLACEs follow */
#define TEK_EVENT_HOLDER \
	14u /* of the INVERSION before it: tid and thread are the holder's; value[0] lifted_ns,
	       value[1] lifted_cpu_ns */
#define TEK_EVENT_INVERSION_PLACE \
	15u /* likewise; error says which: TEK_AT_*; value[0] is the address in the ELF headers
	       of the file that text names, value[1] in the process.  Without text it lies in no
	       file */

/* struct tek_event.error of TEK_EVENT_INVERSION_PLACE */
#define TEK_AT_CALL 0
#define TEK_AT_RELEASE 1
#define TEK_AT_OBJECT 2

struct tek_event {
	tek_u32 magic; /* TEK_EVENT_MAGIC */
	tek_u16 bytes; /* sizeof(struct tek_event) */
	tek_u16 kind;  /* TEK_EVENT_* */
	tek_u32 pid;
	tek_u32 tid;
	tek_u64 time_ns;  /* CLOCK_REALTIME */
	tek_s32 error;    /* errno value; 0: none */
	tek_s32 priority; /* SCHED_TEK priority (nice) */
	tek_u64 value[4];
	tek_u8 thread[16];  /* thread name, NUL-terminated */
	tek_u8 program[64]; /* program name or path, NUL-terminated, shortened at the front */
	tek_u8 text[112];   /* one line, NUL-terminated */
};

TEK_ABI_ASSERT(sizeof(struct tek_event) == 256);
TEK_ABI_AT(tek_event, bytes, 4);
TEK_ABI_AT(tek_event, kind, 6);
TEK_ABI_AT(tek_event, pid, 8);
TEK_ABI_AT(tek_event, tid, 12);
TEK_ABI_AT(tek_event, time_ns, 16);
TEK_ABI_AT(tek_event, error, 24);
TEK_ABI_AT(tek_event, priority, 28);
TEK_ABI_AT(tek_event, value, 32);
TEK_ABI_AT(tek_event, thread, 64);
TEK_ABI_AT(tek_event, program, 80);
TEK_ABI_AT(tek_event, text, 144);

#endif
