/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The programs that TEK can be loaded into, and how it keeps out of all other programs. Most
 * programs are in test_targets.c.
 */
#include "support.h"

#include "base/sanitizer.h"
#include "exec/preload_list.h"
#include "exec/target.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

static struct tek_verdict examine_bytes(const void *bytes, size_t size, mode_t mode)
{
	char path[] = "/tmp/tek-test-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	fchmod(fd, mode);
	struct tek_verdict verdict = tek__target_examine(AT_FDCWD, path);
	close(fd);
	unlink(path);
	return verdict;
}

/* One that is dynamically linked: what a small device has in /bin may not be. */
static const char *ordinary_program(void)
{
	return tek__sanitizer_is_loaded() ? "/bin/ls" : "/proc/self/exe";
}

static struct tek_verdict examine_script(const char *format, mode_t mode)
{
	char line[64];
	int length = snprintf(line, sizeof(line), format, ordinary_program());

	return examine_bytes(line, (size_t)length, mode);
}

static void an_ordinary_program_fits(void **state)
{
	(void)state;
	assert_int_equal(tek__target_examine(AT_FDCWD, ordinary_program()).fit, TEK_FITS);
}

static void what_cannot_be_read_is_left_to_the_kernel(void **state)
{
	(void)state;
	assert_int_equal(tek__target_examine(AT_FDCWD, "/nonexistent").fit, TEK_FITS);
	assert_int_equal(tek__target_examine(AT_FDCWD, "/").fit, TEK_FITS);
	assert_int_equal(examine_bytes("", 0, 0755).fit, TEK_FITS);
	assert_int_equal(examine_bytes("hello\n", 6, 0755).fit, TEK_FITS);
	assert_int_equal(examine_bytes("\177ELF", 4, 0755).fit, TEK_FITS);
}

static ElfW(Ehdr) own_header(void)
{
	ElfW(Ehdr) header;
	int fd = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(read(fd, &header, sizeof(header)), sizeof(header));
	close(fd);
	return header;
}

static int copy_loader(struct dl_phdr_info *info, size_t size, void *loader)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			strncpy(loader, (const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
				63);
	return 1; /* the program is the first */
}

enum { LIBRARIES = 400 };

struct needing {
	ElfW(Ehdr) header;
	ElfW(Phdr) segments[3];
	ElfW(Dyn) needed[LIBRARIES], strings, end;
	char loader[64], names[64];
};

/* A program that needs one library many times, and the last one once. */
static void make_needing(struct needing *program)
{
	*program = (struct needing){
		.header = own_header(),
		.segments = {{.p_type = PT_LOAD, .p_filesz = sizeof(*program)},
			     {.p_type = PT_INTERP,
			      .p_offset = offsetof(struct needing, loader),
			      .p_filesz = sizeof(program->loader)},
			     {.p_type = PT_DYNAMIC,
			      .p_offset = offsetof(struct needing, needed),
			      .p_filesz = offsetof(struct needing, loader) -
					  offsetof(struct needing, needed)}},
		.strings = {DT_STRTAB, {offsetof(struct needing, names)}},
		.names = "\0liba.so\0libasan.so.8",
	};
	program->header.e_phnum = 3;
	program->header.e_phoff = offsetof(struct needing, segments);
	dl_iterate_phdr(copy_loader, program->loader);
	for (int i = 0; i < LIBRARIES; i++)
		program->needed[i] = (ElfW(Dyn)){DT_NEEDED, {1}};
}

static void a_program_that_needs_the_address_sanitizer_is_disturbed(void **state)
{
	struct needing program;

	(void)state;
	make_needing(&program);
	assert_int_equal(examine_bytes(&program, sizeof(program), 0755).fit, TEK_FITS);
	program.needed[LIBRARIES - 1].d_un.d_val = 9; /* libasan.so.8 */
	struct tek_verdict verdict = examine_bytes(&program, sizeof(program), 0755);
	assert_int_equal(verdict.fit, TEK_DISTURBS);
	assert_string_equal(verdict.why, "is built with AddressSanitizer");
}

/* System calls of this thread that read; -1: the kernel does not count them. */
static long reads_made(void)
{
	FILE *counts = fopen("/proc/thread-self/io", "r");
	long reads = -1;

	if (counts && fscanf(counts, "rchar: %*u wchar: %*u syscr: %ld", &reads) != 1)
		reads = -1;
	if (counts)
		fclose(counts);
	return reads;
}

static void a_program_with_many_libraries_is_examined_in_a_few_reads_for_each(void **state)
{
	struct needing program;

	(void)state;
	make_needing(&program);
	const long before = reads_made();
	if (before < 0) {
		print_message("# needs /proc/thread-self/io\n");
		skip();
	}
	examine_bytes(&program, sizeof(program), 0755);
	assert_in_range(reads_made() - before, LIBRARIES, 10 * LIBRARIES);
}

static void a_script_is_what_its_interpreter_is(void **state)
{
	(void)state;
	assert_int_equal(examine_script("#! %s -e\n", 0755).fit, TEK_FITS);
	assert_int_equal(examine_bytes("#!", 2, 0755).fit, TEK_FITS);
	assert_int_equal(examine_bytes("#!   \n", 6, 0755).fit, TEK_FITS);
	/* A script that is its own interpreter. */
	char path[] = "/tmp/tek-test-XXXXXX";
	int fd = mkstemp(path);
	char line[64];
	int length = snprintf(line, sizeof(line), "#!%s\n", path);
	assert_int_equal(write(fd, line, (size_t)length), length);
	assert_int_equal(tek__target_examine(AT_FDCWD, path).fit, TEK_FITS);
	close(fd);
	unlink(path);
}

static const char *preload_of(char *const environment[])
{
	for (; *environment; environment++)
		if (strncmp(*environment, "LD_PRELOAD=", 11) == 0)
			return *environment + 11;
	return NULL;
}

static const char *exchanged(const char *preload, const char *other)
{
	static char memory[1024];
	char entry[256];
	char *environment[] = {"A=1", entry, "B=2", NULL};

	snprintf(entry, sizeof(entry), "LD_PRELOAD=%s", preload);
	size_t size = tek__preload_list_size(environment, other);
	assert_true(size > 0 && size <= sizeof(memory));
	char *const *result = tek__preload_list_exchange(environment, other, memory);
	assert_string_equal(result[0], "A=1");
	return preload_of(result);
}

static const char *without_us(const char *preload)
{
	return exchanged(preload, NULL);
}

static void libtek_is_exchanged_for_its_sibling_in_ld_preload(void **state)
{
	static const char other[] = "/usr/local/lib32/libtek.so";

	(void)state;
	assert_string_equal(exchanged("/x/libtek.so", other), other);
	assert_string_equal(exchanged("/a.so:/x/libtek.so /b.so", other),
			    "/a.so:/usr/local/lib32/libtek.so:/b.so");
	assert_string_equal(exchanged("libtek.so::libtek.so", other),
			    "/usr/local/lib32/libtek.so:/usr/local/lib32/libtek.so");
	assert_string_equal(exchanged("/b.so", other), "/b.so");
}

/* `tek run --alloc` and `--libm`, and `tek profile`, preload for programs of one word size. */
static void allocators_leave_ld_preload_with_libtek(void **state)
{
	(void)state;
	assert_null(without_us("/x/libtek-profile.so:/x/libtek-sync.so:/x/libtek.so"));
	assert_null(without_us("/x/libtek.so:/x/libtek-alloc.so"));
	assert_string_equal(without_us("/x/libtek.so:/lib/libmimalloc.so.2:/libjemalloc.so.2:/"
				       "libtcmalloc_minimal.so.4:"
				       "/x/libtek-libm-musl.so:/b.so"),
			    "/b.so");
	assert_string_equal(exchanged("/x/libtek-uthread.so /x/libtek-alloc.so", "/y/libtek.so"),
			    "/y/libtek.so");
	assert_string_equal(
		without_us("/libtek-allocator.so:/mylibmimalloc.so:/libtek-alloc.so.d/x.so"),
		"/libtek-allocator.so:/mylibmimalloc.so:/libtek-alloc.so.d/x.so");
}

static void the_mathematical_functions_of_a_path_leave_ld_preload_with_libtek(void **state)
{
	_Alignas(char *) char memory[1024];
	char preload[] = "LD_PRELOAD=/x/libtek.so:/y/libfast.so:/z/libfast.so:/y/libfast.so.1";
	char libm[] = "TEK_LIBM=/y/libfast.so";
	char *environment[] = {preload, libm, NULL};

	(void)state;
	assert_in_range(tek__preload_list_size(environment, NULL), 1, sizeof(memory));
	char *const *result = tek__preload_list_exchange(environment, NULL, memory);
	assert_string_equal(result[0], "LD_PRELOAD=/z/libfast.so:/y/libfast.so.1");
	assert_string_equal(result[1], libm);
}

static void one_library_leaves_ld_preload_and_other_libraries_stay(void **state)
{
	_Alignas(char *) char memory[1024];
	char preload[] = "LD_PRELOAD=/x/libtek-profile.so:/x/libtek.so b.so", assigned[] = "HOME=/";
	char *environment[] = {preload, assigned, NULL};
	const char name[] = "libtek-profile.so";

	(void)state;
	assert_in_range(tek__preload_list_size(environment, NULL), 1, sizeof(memory));
	char *const *result = tek__preload_list_without(environment, name, memory);
	assert_string_equal(result[0], "LD_PRELOAD=/x/libtek.so:b.so");
	assert_string_equal(result[1], assigned);
	assert_null(result[2]);
	strcpy(preload, "LD_PRELOAD=/x/libtek-profile.so");
	result = tek__preload_list_without(environment, name, memory);
	assert_string_equal(result[0], assigned);
	assert_null(result[1]);
}

static void what_comes_along_with_libtek_goes_with_it(void **state)
{
	char directory[] = "/tmp/tek-exec-XXXXXX", sibling[64], other[64], expected[256];

	(void)state;
	/* Not there: it is taken out. */
	assert_string_equal(exchanged("/x/libtek.so:/x/libtek-rtfifo.so:/b.so", "/y/libtek.so"),
			    "/y/libtek.so:/b.so");
	assert_string_equal(without_us("/x/libtek.so:/x/libtek-rtfifo.so:/b.so"), "/b.so");
	assert_null(without_us("/x/libtek.so:/x/libtek-rtfifo.so"));
	assert_non_null(mkdtemp(directory));
	snprintf(sibling, sizeof(sibling), "%s/libtek-rtfifo.so", directory);
	snprintf(other, sizeof(other), "%s/libtek.so", directory);
	snprintf(expected, sizeof(expected), "%s:%s:/b.so", other, sibling);
	fclose(fopen(sibling, "w"));
	const char *result = exchanged("/x/libtek.so:libtek-rtfifo.so:/b.so", other);
	const bool same = strcmp(result, expected) == 0;
	unlink(sibling);
	rmdir(directory);
	assert_true(same);
}

static void the_sibling_lies_in_the_directory_for_the_other_word_size(void **state)
{
	static const char *const pairs[][2] = {
		{"/opt/tek/lib/libtek.so", "/opt/tek/lib32/libtek.so"},
		{"/lib/libtek.so", "/lib32/libtek.so"},
		{"/usr/lib/x86_64-linux-gnu/libtek.so", "/usr/lib/i386-linux-gnu/libtek.so"},
	};
	char path[64];

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		for (size_t from = 0; from < 2; from++) {
			assert_true(tek__target_sibling_of(pairs[i][from], path, sizeof(path)));
			assert_string_equal(path, pairs[i][1 - from]);
		}
	assert_false(tek__target_sibling_of("/opt/tek/libtek.so", path, sizeof(path)));
	assert_false(tek__target_sibling_of("/opt/lib/tek/libtek.so", path, sizeof(path)));
	assert_false(tek__target_sibling_of("libtek.so", path, sizeof(path)));
	assert_false(tek__target_sibling_of("/opt/tek/lib/libtek.so", path, 24));
}

static void only_libtek_is_taken_out_of_ld_preload(void **state)
{
	char *const without[] = {"A=1", NULL};

	(void)state;
	assert_null(without_us("/opt/tek/lib/libtek.so"));
	assert_null(without_us("libtek.so"));
	assert_string_equal(without_us("/a.so:/x/libtek.so:/b.so"), "/a.so:/b.so");
	assert_string_equal(without_us("/x/libtek.so /b.so"), "/b.so");
	assert_string_equal(without_us("/x/libtek.so.0:/x/libtek.so.0.1.0:/b.so"), "/b.so");
	assert_string_equal(without_us("/x/notlibtek.so:/libtek.sound.so"),
			    "/x/notlibtek.so:/libtek.sound.so");
	assert_string_equal(without_us("::/b.so::"), "/b.so");
	assert_int_equal(tek__preload_list_size(without, NULL), 0);
	assert_int_equal(tek__preload_list_size(NULL, NULL), 0);
}

static void a_program_is_searched_as_execvp_does(void **state)
{
	char path[256];

	(void)state;
	assert_string_equal(tek__target_search("./x/y", path, sizeof(path)), "./x/y");
	assert_string_equal(tek__target_search("no-such-program", path, sizeof(path)),
			    "no-such-program");
	setenv("PATH", "/nonexistent:/bin:/usr/bin", 1);
	assert_string_equal(tek__target_search("sh", path, sizeof(path)), "/bin/sh");
}

static int start(void **state)
{
	(void)state;
	tek__target_start();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_program_fits),
		cmocka_unit_test(what_cannot_be_read_is_left_to_the_kernel),
		cmocka_unit_test(a_program_that_needs_the_address_sanitizer_is_disturbed),
		cmocka_unit_test(a_program_with_many_libraries_is_examined_in_a_few_reads_for_each),
		cmocka_unit_test(a_script_is_what_its_interpreter_is),
		cmocka_unit_test(only_libtek_is_taken_out_of_ld_preload),
		cmocka_unit_test(libtek_is_exchanged_for_its_sibling_in_ld_preload),
		cmocka_unit_test(allocators_leave_ld_preload_with_libtek),
		cmocka_unit_test(the_mathematical_functions_of_a_path_leave_ld_preload_with_libtek),
		cmocka_unit_test(one_library_leaves_ld_preload_and_other_libraries_stay),
		cmocka_unit_test(what_comes_along_with_libtek_goes_with_it),
		cmocka_unit_test(the_sibling_lies_in_the_directory_for_the_other_word_size),
		cmocka_unit_test(a_program_is_searched_as_execvp_does),
	};
	return cmocka_run_group_tests(tests, start, NULL);
}
