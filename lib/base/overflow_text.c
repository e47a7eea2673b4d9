/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/overflow_text.h"

#include "base/channel.h"
#include "base/line.h"
#include "base/module.h"

#include <string.h>
#include <unistd.h>

static void write_line(struct tek_line *line)
{
	tek__line_add(line, "\n");
	tek__channel_report(line->text, line->length);
}

static void write_overflow(const struct tek_event *event)
{
	struct tek_line line = {0};

	tek__line_add(&line, "tek: ");
	tek__line_add(&line, (const char *)event->program);
	tek__line_add(&line, "[");
	tek__line_add_number(&line, event->pid);
	tek__line_add(&line, "]: thread \"");
	tek__line_add(&line, (const char *)event->thread);
	tek__line_add(&line, "\"[");
	tek__line_add_number(&line, event->tid);
	tek__line_add(&line, "] ");
	if (event->text[0]) {
		tek__line_add(&line, "(");
		tek__line_add(&line, (const char *)event->text);
		tek__line_add(&line, ") ");
	}
	tek__line_add(&line, "ran out of its stack of ");
	tek__line_add_number(&line, event->value[0]);
	tek__line_add(&line, event->error ? " bytes, which TEK chose" : " bytes");
	write_line(&line);
}

static void write_frame(const struct tek_event *event)
{
	struct tek_line line = {0};

	tek__line_add(&line, "tek:   ");
	if (event->value[0]) {
		tek__line_add(&line, "#");
		tek__line_add_number(&line, event->value[0]);
	} else {
		tek__line_add(&line, "it runs");
	}
	tek__line_add(&line, " ");
	tek__line_add(&line, (const char *)event->text);
	tek__line_add(&line, "+0x");
	tek__line_add_hex(&line, event->value[1]);
	if (event->value[3]) {
		tek__line_add(&line, ", then ");
		tek__line_add_number(&line, event->value[3]);
		tek__line_add(&line, " more");
	}
	write_line(&line);
}

/* Finds the file of an address, and the offset there. */
static void locate(struct tek_event *event, uintptr_t address)
{
	uintptr_t bias;
	const char *path = tek__module_path(address, &bias);
	char program[256];

	memset(event->text, 0, sizeof(event->text));
	event->value[1] = event->value[2] = address;
	if (!path)
		return;
	event->value[1] = address - bias;
	if (!path[0]) {
		ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
		program[length > 0 ? length : 0] = '\0';
		path = program;
	}
	tek__channel_copy_tail(event->text, sizeof(event->text), path);
}

void tek__overflow_report(struct tek_event *event, uintptr_t function,
			  const struct tek_backtrace *trace)
{
	if (!tek__channel_append(event))
		write_overflow(event);

	event->kind = TEK_EVENT_FRAME;
	event->error = 0;
	for (unsigned int i = 0; i <= trace->count; i++) {
		event->value[0] = i;
		event->value[3] = i ? trace->frames[i - 1].more : 0;
		locate(event, i ? trace->frames[i - 1].address : function);
		if (event->value[2] && !tek__channel_append(event))
			write_frame(event);
	}
}
