/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files by stream. */
#include "base/export.h"
#include "preload/profile/stream.h"

/* Macros in some versions of the headers. */
#undef fread_unlocked
#undef fwrite_unlocked

#define TEK_FILE(type, name, parameters, arguments) \
	TEK_TIMED(TEK_PROFILE_FILE, type, name, parameters, arguments)

/* So many bytes; 0: as many as there happen to be. */
#define TEK_READS_FROM(stream_, bytes, type, name, parameters, arguments) \
	TEK_EXPORT type name parameters \
	{ \
		FILE *from_ = stream_; \
		struct tek_profile_stream call_ = tek_prof__reads(from_, bytes, TEK_FRAME); \
		type result_ = REAL(name) arguments; \
		tek_prof__read(&call_, from_, TEK_SITE); \
		return result_; \
	}

#define TEK_READS(bytes, type, name, parameters, arguments) \
	TEK_READS_FROM(stream, bytes, type, name, parameters, arguments)
#define TEK_READS_INPUT(bytes, type, name, parameters, arguments) \
	TEK_READS_FROM(stdin, bytes, type, name, parameters, arguments)

#define TEK_WRITES(stream_, bytes, type, name, parameters, arguments) \
	TEK_EXPORT type name parameters \
	{ \
		FILE *to_ = stream_; \
		struct tek_profile_stream call_ = tek_prof__writes(to_, bytes, TEK_FRAME); \
		type result_ = REAL(name) arguments; \
		tek_prof__written(&call_, to_, TEK_SITE); \
		return result_; \
	}

/* A stream with a new descriptor. */
#define TEK_OPENS(name, parameters, arguments) \
	TEK_EXPORT FILE *name parameters \
	{ \
		struct tek_profile_thread *counted_ = tek_prof__enter(TEK_PROFILE_FILE, \
								      TEK_FRAME); \
		FILE *opened_ = REAL(name) arguments; \
		if (opened_) \
			tek_prof__descriptor_forget(opened_->_fileno); \
		if (counted_) \
			tek_prof__leave(counted_, TEK_PROFILE_FILE); \
		return opened_; \
	}

TEK_OPENS(fopen, (const char *path, const char *mode), (path, mode))
TEK_OPENS(fopen64, (const char *path, const char *mode), (path, mode))
TEK_OPENS(freopen, (const char *path, const char *mode, FILE *stream), (path, mode, stream))
TEK_OPENS(freopen64, (const char *path, const char *mode, FILE *stream), (path, mode, stream))
TEK_OPENS(popen, (const char *command, const char *mode), (command, mode))
TEK_FILE(FILE *, fdopen, (int fd, const char *mode), (fd, mode))
TEK_FILE(int, fseek, (FILE * stream, long at, int from), (stream, at, from))
TEK_FILE(int, fseeko, (FILE * stream, off_t at, int from), (stream, at, from))
TEK_FILE(int, fseeko64, (FILE * stream, off64_t at, int from), (stream, at, from))

/*
 * The descriptor to which it writes what was not written yet; -1: there is nothing, or it is all
 * streams.
 */
static int waits_to_write(FILE *stream)
{
	bool has_some = stream && stream->_IO_write_ptr > stream->_IO_write_base;

	return has_some ? stream->_fileno : -1;
}

TEK_EXPORT int fflush(FILE *stream)
{
	struct tek_profile_transfer transfer = tek_prof__transfer(waits_to_write(stream),
								  TEK_FRAME);
	int result = REAL(fflush)(stream);

	tek_prof__transferred(&transfer, TEK_SITE);
	return result;
}

TEK_EXPORT int fclose(FILE *stream)
{
	struct tek_profile_transfer transfer = tek_prof__transfer(waits_to_write(stream),
								  TEK_FRAME);

	/* Before: then another thread may have the same number for something else. */
	tek_prof__descriptor_forget(stream->_fileno);
	int result = REAL(fclose)(stream);
	tek_prof__transferred(&transfer, TEK_SITE);
	return result;
}

TEK_READS(size *count, size_t, fread, (void *buffer, size_t size, size_t count, FILE *stream),
	  (buffer, size, count, stream))
TEK_READS(size *count, size_t, __fread_chk,
	  (void *buffer, size_t room, size_t size, size_t count, FILE *stream),
	  (buffer, room, size, count, stream))
TEK_READS(0, char *, fgets, (char *buffer, int bytes, FILE *stream), (buffer, bytes, stream))
TEK_READS(0, char *, __fgets_chk, (char *buffer, size_t room, int bytes, FILE *stream),
	  (buffer, room, bytes, stream))
TEK_READS(1, int, fgetc, (FILE * stream), (stream))
TEK_READS(1, int, getc, (FILE * stream), (stream))
TEK_READS(0, ssize_t, getline, (char **line, size_t *bytes, FILE *stream), (line, bytes, stream))
TEK_READS(0, ssize_t, getdelim, (char **line, size_t *bytes, int end, FILE *stream),
	  (line, bytes, end, stream))
TEK_READS(0, int, __isoc99_vfscanf, (FILE * stream, const char *format, va_list arguments),
	  (stream, format, arguments))
TEK_WRITES(stream, size *count, size_t, fwrite,
	   (const void *buffer, size_t size, size_t count, FILE *stream),
	   (buffer, size, count, stream))
TEK_WRITES(stream, 1, int, fputc, (int character, FILE *stream), (character, stream))
TEK_WRITES(stream, 1, int, putc, (int character, FILE *stream), (character, stream))
TEK_WRITES(stdout, 1, int, putchar, (int character), (character))
TEK_WRITES(stream, 0, int, fputs, (const char *text, FILE *stream), (text, stream))
TEK_WRITES(stdout, 0, int, puts, (const char *text), (text))
TEK_WRITES(stdout, 0, int, vprintf, (const char *format, va_list arguments), (format, arguments))
TEK_WRITES(stream, 0, int, vfprintf, (FILE * stream, const char *format, va_list arguments),
	   (stream, format, arguments))
TEK_WRITES(stdout, 0, int, __vprintf_chk, (int flag, const char *format, va_list arguments),
	   (flag, format, arguments))
TEK_WRITES(stream, 0, int, __vfprintf_chk,
	   (FILE * stream, int flag, const char *format, va_list arguments),
	   (stream, flag, format, arguments))

TEK_EXPORT int pclose(FILE *stream)
{
	TEK_PROFILE_WAITING = tek_prof__wait(TEK_PROFILE_IDLE, NULL, TEK_FRAME);

	tek_prof__descriptor_forget(stream->_fileno);
	int result = REAL(pclose)(stream);
	tek_prof__waited(&waiting_, TEK_PROFILE_IDLE, TEK_PROFILE_SLEEP, TEK_SITE, NULL);
	return result;
}

TEK_EXPORT int fflush_unlocked(FILE *stream)
{
	struct tek_profile_transfer transfer = tek_prof__transfer(waits_to_write(stream),
								  TEK_FRAME);
	int result = REAL(fflush_unlocked)(stream);

	tek_prof__transferred(&transfer, TEK_SITE);
	return result;
}

TEK_READS(1, int, __uflow, (FILE * stream), (stream))
TEK_WRITES(stream, 1, int, __overflow, (FILE * stream, int character), (stream, character))
TEK_READS(size *count, size_t, fread_unlocked,
	  (void *buffer, size_t size, size_t count, FILE *stream), (buffer, size, count, stream))
TEK_READS(size *count, size_t, __fread_unlocked_chk,
	  (void *buffer, size_t room, size_t size, size_t count, FILE *stream),
	  (buffer, room, size, count, stream))
TEK_WRITES(stream, size *count, size_t, fwrite_unlocked,
	   (const void *buffer, size_t size, size_t count, FILE *stream),
	   (buffer, size, count, stream))
TEK_READS(0, char *, fgets_unlocked, (char *buffer, int bytes, FILE *stream),
	  (buffer, bytes, stream))
TEK_READS(0, char *, __fgets_unlocked_chk, (char *buffer, size_t room, int bytes, FILE *stream),
	  (buffer, room, bytes, stream))
TEK_WRITES(stream, 0, int, fputs_unlocked, (const char *text, FILE *stream), (text, stream))
TEK_READS(1, int, fgetc_unlocked, (FILE * stream), (stream))
TEK_READS(1, int, getc_unlocked, (FILE * stream), (stream))
TEK_WRITES(stream, 1, int, fputc_unlocked, (int character, FILE *stream), (character, stream))
TEK_WRITES(stream, 1, int, putc_unlocked, (int character, FILE *stream), (character, stream))
TEK_WRITES(stdout, 1, int, putchar_unlocked, (int character), (character))
TEK_READS_INPUT(1, int, getchar_unlocked, (void), ())
TEK_READS_INPUT(1, int, getchar, (void), ())
TEK_READS_INPUT(0, int, __isoc99_vscanf, (const char *format, va_list arguments),
		(format, arguments))
TEK_READS(0, int, __isoc23_vfscanf, (FILE * stream, const char *format, va_list arguments),
	  (stream, format, arguments))
TEK_READS_INPUT(0, int, __isoc23_vscanf, (const char *format, va_list arguments),
		(format, arguments))
TEK_FILE(int, vdprintf, (int fd, const char *format, va_list arguments), (fd, format, arguments))
TEK_FILE(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list arguments),
	 (fd, flag, format, arguments))

TEK_EXPORT void rewind(FILE *stream)
{
	struct tek_profile_thread *counted = tek_prof__enter(TEK_PROFILE_FILE, TEK_FRAME);

	REAL(rewind)(stream);
	if (counted)
		tek_prof__leave(counted, TEK_PROFILE_FILE);
}

/* Functions of any number of arguments are those of a list of them. */
#define TEK_VARIADIC(name, parameters, last, call) \
	int name parameters; \
	TEK_EXPORT int name parameters \
	{ \
		va_list arguments; \
		va_start(arguments, last); \
		int result = call; \
		va_end(arguments); \
		return result; \
	}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
TEK_VARIADIC(printf, (const char *format, ...), format, vprintf(format, arguments))
TEK_VARIADIC(fprintf, (FILE * stream, const char *format, ...), format,
	     vfprintf(stream, format, arguments))
/* fscanf() as the headers rename it. */
TEK_VARIADIC(__isoc99_fscanf, (FILE * stream, const char *format, ...), format,
	     __isoc99_vfscanf(stream, format, arguments))
TEK_VARIADIC(__isoc99_scanf, (const char *format, ...), format, __isoc99_vscanf(format, arguments))
TEK_VARIADIC(__isoc23_fscanf, (FILE * stream, const char *format, ...), format,
	     __isoc23_vfscanf(stream, format, arguments))
TEK_VARIADIC(__isoc23_scanf, (const char *format, ...), format, __isoc23_vscanf(format, arguments))
TEK_VARIADIC(dprintf, (int fd, const char *format, ...), format, vdprintf(fd, format, arguments))
TEK_VARIADIC(__dprintf_chk, (int fd, int flag, const char *format, ...), format,
	     __vdprintf_chk(fd, flag, format, arguments))
TEK_VARIADIC(__printf_chk, (int flag, const char *format, ...), format,
	     __vprintf_chk(flag, format, arguments))
TEK_VARIADIC(__fprintf_chk, (FILE * stream, int flag, const char *format, ...), format,
	     __vfprintf_chk(stream, flag, format, arguments))
#pragma GCC diagnostic pop
