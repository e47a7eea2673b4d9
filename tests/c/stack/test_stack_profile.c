/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The profiles that count, and those of their lines that count. */
#include "support.h"

#include "stack/profile.h"

#include <fcntl.h>
#include <sys/stat.h>

#define FIRST "tek-stack-profile 1\n"
#define GOOD \
	"kind function=ab12+0x10 caller=@main+0x20 bound=4096 least=2048 overflow=8192 " \
	"threads=3 runs=2\n"

static struct {
	unsigned int count;
	struct tek_learnt last;
} seen;

static void note(const struct tek_learnt *learnt, void *context)
{
	assert_ptr_equal(context, &seen);
	seen.count++;
	seen.last = *learnt;
}

static bool parse_bytes(const char *text, size_t bytes)
{
	seen.count = 0;
	return tek__profile_parse(text, bytes, note, &seen);
}

static bool parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static void a_kind_is_read_with_all_that_is_known_of_it(void **state)
{
	(void)state;
	assert_true(parse(FIRST "program main\n# words\n\n" GOOD));
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.last.function.module, "ab12");
	assert_int_equal(seen.last.function.offset, 0x10);
	assert_string_equal(seen.last.caller.module, "@main");
	assert_int_equal(seen.last.caller.offset, 0x20);
	assert_int_equal(seen.last.bound_bytes, 4096);
	assert_int_equal(seen.last.overflow_bytes, 8192);
	assert_int_equal(seen.last.threads, 3);
	assert_int_equal(seen.last.least_bytes, 2048);
	assert_int_equal(seen.last.runs, 2);
}

static void names_are_decoded(void **state)
{
	(void)state;
	assert_true(parse(FIRST "kind function=@a%20b%25c++d+0x1 bound=1 threads=1\n"));
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.last.function.module, "@a b%c++d");
	assert_string_equal(seen.last.caller.module, "");
}

static void each_line_is_judged_as_in_the_list_of_lines(void **state)
{
	FILE *lines = fopen(PROFILE_LINES, "r");
	char line[512], text[1024], numbers[64];
	unsigned int count = 0;

	(void)state;
	assert_non_null(lines);
	while (fgets(line, sizeof(line), lines)) {
		bool good = strncmp(line, "good ", 5) == 0;
		if (line[0] == '#')
			continue;
		const char *kind = good ? strchr(line + 5, ' ') + 1 : line + 4;
		snprintf(text, sizeof(text), FIRST GOOD "%s" GOOD, kind);
		assert_true(parse(text));
		if (seen.count != 2u + good)
			print_error("judged wrongly: %s", line);
		assert_int_equal(seen.count, 2 + good);
		snprintf(text, sizeof(text), FIRST "%s", kind);
		assert_true(parse(text));
		if (good) {
			snprintf(numbers, sizeof(numbers), "%llu,%llu,%llu ",
				 (unsigned long long)seen.last.bound_bytes,
				 (unsigned long long)seen.last.overflow_bytes,
				 (unsigned long long)seen.last.threads);
			assert_memory_equal(numbers, line + 5, strlen(numbers));
		}
		count++;
	}
	fclose(lines);
	assert_true(count > 60);
}

static void what_is_no_profile_is_not_used(void **state)
{
	(void)state;
	assert_false(parse(""));
	assert_false(parse("tek-stack-profile 2\n" GOOD));
	assert_false(parse("tek-stack-profile 10\n" GOOD));
	assert_false(parse("tek-stack-profile 1 \n" GOOD));
	assert_false(parse("tek-stack-profile 1\r\n" GOOD));
	assert_false(parse("\n" FIRST GOOD));
	assert_false(parse(GOOD));
	assert_int_equal(seen.count, 0);
	assert_true(parse("tek-stack-profile 1\n"));
}

static void a_line_without_an_end_was_cut_short(void **state)
{
	(void)state;
	assert_true(parse(FIRST GOOD "kind function=ab+0x1 bound=1 threads=1"));
	assert_int_equal(seen.count, 1);
	assert_true(parse(FIRST GOOD "kind function=ab+0x1 bound=1 thre"));
	assert_int_equal(seen.count, 1);
	assert_false(parse("tek-stack-profile 1"));
}

static void a_nul_ends_nothing(void **state)
{
	static const char nul[] = FIRST "kind function=ab+0x1 bound=1\0 threads=1\n" GOOD;
	static const char name[] = FIRST "kind function=@a\0+0x1 bound=1 threads=1\n" GOOD;

	(void)state;
	assert_true(parse_bytes(nul, sizeof(nul) - 1));
	assert_int_equal(seen.count, 1);
	assert_true(parse_bytes(name, sizeof(name) - 1));
	assert_int_equal(seen.count, 1);
}

static char *many(const char *line, size_t times, size_t *bytes)
{
	char *text = malloc(strlen(FIRST) + times * strlen(line) + 1), *to = stpcpy(text, FIRST);

	while (times--)
		to = stpcpy(to, line);
	*bytes = (size_t)(to - text);
	return text;
}

static void there_is_an_end_to_kinds_and_bytes(void **state)
{
	size_t bytes;
	char *text = many(GOOD, 5000, &bytes);

	(void)state;
	assert_true(bytes < TEK_PROFILE_MOST_BYTES);
	assert_true(parse_bytes(text, bytes));
	assert_int_equal(seen.count, TEK_PROFILE_MOST_KINDS);
	free(text);

	text = many("\n", TEK_PROFILE_MOST_BYTES - strlen(FIRST), &bytes);
	assert_true(parse_bytes(text, bytes));
	assert_false(parse_bytes(text, bytes + 1));
	free(text);
}

static char directory[] = "/tmp/tek-test-profile-XXXXXX";
static char path[sizeof(directory) + 8];

static void write_profile(const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static bool read_profile(const char *from)
{
	seen.count = 0;
	return tek__profile_read(from, note, &seen);
}

static int make_file(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/file", directory);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	return fd < 0 || close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path) || rmdir(directory);
}

static void a_file_counts_if_nobody_else_can_write_to_it(void **state)
{
	(void)state;
	write_profile(FIRST GOOD);
	assert_true(read_profile(path));
	assert_int_equal(seen.count, 1);
	chmod(path, 0644);
	assert_true(read_profile(path));
	chmod(path, 0664);
	assert_false(read_profile(path));
	chmod(path, 0646);
	assert_false(read_profile(path));
	chmod(path, 0600);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_false(read_profile(path));
		assert_int_equal(chown(path, 0, 0), 0);
	}
	assert_true(read_profile(path));
}

/* They could put an older one there, which is the user's. */
static void it_counts_if_nobody_else_can_write_to_its_directory(void **state)
{
	(void)state;
	write_profile(FIRST GOOD);
	chmod(directory, 0755);
	assert_true(read_profile(path));
	chmod(directory, 0775);
	assert_false(read_profile(path));
	chmod(directory, 01777);
	assert_false(read_profile(path));
	chmod(directory, 0700);
	if (geteuid() == 0) {
		assert_int_equal(chown(directory, 65534, 65534), 0);
		assert_false(read_profile(path));
		assert_int_equal(chown(directory, 0, 0), 0);
	}
	assert_true(read_profile(path));
}

static void only_a_file_counts(void **state)
{
	char other[sizeof(path) + 8];

	(void)state;
	write_profile(FIRST GOOD);
	snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(symlink(path, other), 0);
	assert_false(read_profile(other));
	unlink(other);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_false(read_profile(other)); /* and does not wait */
	unlink(other);
	assert_false(read_profile(other));
	assert_false(read_profile("/tmp"));
	assert_false(read_profile("/dev/zero"));
}

static void a_file_that_is_empty_or_too_large_does_not_count(void **state)
{
	(void)state;
	write_profile("");
	assert_false(read_profile(path));
	write_profile(FIRST GOOD);
	assert_int_equal(truncate(path, TEK_PROFILE_MOST_BYTES), 0);
	assert_true(read_profile(path));
	assert_int_equal(seen.count, 1);
	assert_int_equal(truncate(path, TEK_PROFILE_MOST_BYTES + 1), 0);
	assert_false(read_profile(path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kind_is_read_with_all_that_is_known_of_it),
		cmocka_unit_test(names_are_decoded),
		cmocka_unit_test(each_line_is_judged_as_in_the_list_of_lines),
		cmocka_unit_test(what_is_no_profile_is_not_used),
		cmocka_unit_test(a_line_without_an_end_was_cut_short),
		cmocka_unit_test(a_nul_ends_nothing),
		cmocka_unit_test(there_is_an_end_to_kinds_and_bytes),
		cmocka_unit_test(a_file_counts_if_nobody_else_can_write_to_it),
		cmocka_unit_test(it_counts_if_nobody_else_can_write_to_its_directory),
		cmocka_unit_test(only_a_file_counts),
		cmocka_unit_test(a_file_that_is_empty_or_too_large_does_not_count),
	};
	return cmocka_run_group_tests_name("stack_profile", tests, make_file, remove_file);
}
