/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The programs of tests/vectors/targets.txt: each is made, and judged as `tek run` judges it. */
#include "vectors.h"

#include "base/sanitizer.h"
#include "exec/target.h"
#include "tek_targets.h"

#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { LIBRARIES = 4 };

/* All that a program of the vectors may have. */
struct program {
	ElfW(Ehdr) header;
	ElfW(Phdr) loaded, interpreter, dynamic, notes;
	ElfW(Dyn) strings, name, needed[LIBRARIES], end;
	struct {
		ElfW(Nhdr) header;
		char owner[16];
	} note;
	char loader[PATH_MAX], texts[256];
};

static char directory[PATH_MAX];
static char own_loader[PATH_MAX];

/* The value of the next detail with this name behind `after`; NULL: there is none. */
static const char *next_detail(const struct vector *vector, const char *name, unsigned int *after)
{
	const size_t length = strlen(name);

	while (++*after < vector->count) {
		const char *word = vector->words[*after];
		if (strncmp(word, name, length) == 0 && word[length] == '=')
			return word + length + 1;
	}
	return NULL;
}

static const char *detail(const struct vector *vector, const char *name)
{
	unsigned int after = 2;
	return next_detail(vector, name, &after);
}

static void in_directory(char *path, const char *name)
{
	assert_in_range(snprintf(path, PATH_MAX, "%s/%s", directory, name), 1, PATH_MAX - 1);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

/* One that is dynamically linked, and not with a sanitizer. */
static void find_ordinary_program(char *path)
{
	const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);

	assert_true(length > 0);
	path[length] = '\0';
	if (tek__sanitizer_is_loaded())
		strcpy(path, "/bin/ls");
}

static void write_text(const char *path, const char *contents)
{
	char text[PATH_MAX + 64], ordinary[PATH_MAX];
	const size_t before = strcspn(contents, "@");

	find_ordinary_program(ordinary);
	const int length = snprintf(text, sizeof(text), "%.*s%s%s", (int)before, contents,
				    contents[before] ? ordinary : "",
				    contents[before] ? contents + before + 1 : "");
	write_file(path, text, (size_t)length);
}

static void describe_loader(struct program *program, const char *loader)
{
	const char *name = strrchr(own_loader, '/') + 1;

	program->interpreter = (ElfW(Phdr)){.p_type = PT_INTERP,
					    .p_offset = offsetof(struct program, loader),
					    .p_filesz = sizeof(program->loader)};
	if (strcmp(loader, "own") == 0) {
		strcpy(program->loader, own_loader);
	} else if (strcmp(loader, "lost") == 0) {
		snprintf(program->loader, sizeof(program->loader), "/nonexistent/%s", name);
	} else if (strcmp(loader, "beside") == 0) {
		in_directory(program->loader, name);
		write_file(program->loader, "", 0);
	} else {
		strcpy(program->loader, loader);
	}
}

static void describe_note(struct program *program, const char *owner)
{
	program->notes = (ElfW(Phdr)){.p_type = PT_NOTE,
				      .p_offset = offsetof(struct program, note),
				      .p_filesz = sizeof(program->note)};
	program->note.header.n_namesz = (ElfW(Word))strlen(owner) + 1;
	strcpy(program->note.owner, owner);
}

static ElfW(Dyn) entry(struct program *program, ElfW(Sxword) tag, const char *text, size_t *end)
{
	const size_t at = *end;

	assert_true(at + strlen(text) < sizeof(program->texts));
	strcpy(program->texts + at, text);
	*end += strlen(text) + 1;
	return (ElfW(Dyn)){tag, {at}};
}

/* An entry that is not used is DT_DEBUG, for DT_NULL would be the last one. */
static void describe_libraries(struct program *program, const struct vector *vector)
{
	const char *name = detail(vector, "name"), *needed;
	unsigned int after = 2;
	size_t end = 1;

	program->dynamic = (ElfW(Phdr)){.p_type = PT_DYNAMIC,
					.p_offset = offsetof(struct program, strings),
					.p_filesz = offsetof(struct program, note) -
						    offsetof(struct program, strings)};
	program->strings = (ElfW(Dyn)){DT_STRTAB, {offsetof(struct program, texts)}};
	program->name.d_tag = DT_DEBUG;
	if (name)
		program->name = entry(program, DT_SONAME, name, &end);
	for (unsigned int i = 0; i < LIBRARIES; i++) {
		program->needed[i].d_tag = DT_DEBUG;
		needed = next_detail(vector, "needs", &after);
		if (needed)
			program->needed[i] = entry(program, DT_NEEDED, needed, &end);
	}
	vector_assert(vector, !next_detail(vector, "needs", &after));
}

static void write_elf(const char *path, const struct vector *vector)
{
	static struct program program;
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	program = (struct program){0};
	assert_int_equal(read(fd, &program, EI_NIDENT + 8), EI_NIDENT + 8);
	close(fd);
	program.header.e_phoff = offsetof(struct program, loaded);
	program.header.e_phentsize = sizeof(program.loaded);
	program.header.e_phnum = 4;
	program.loaded = (ElfW(Phdr)){.p_type = PT_LOAD, .p_filesz = sizeof(program)};
	if (detail(vector, "class"))
		program.header.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64;
	if (detail(vector, "order")) { /* with no segment, for their number would be another */
		program.header.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
		program.header.e_phoff = 0;
		program.header.e_phnum = 0;
	}
	if (detail(vector, "machine"))
		program.header.e_machine = EM_SPARC;
	if (detail(vector, "loader"))
		describe_loader(&program, detail(vector, "loader"));
	if (detail(vector, "note"))
		describe_note(&program, detail(vector, "note"));
	describe_libraries(&program, vector);
	write_file(path, &program, sizeof(program));
}

static void set_rights(const struct vector *vector, const char *path)
{
	const char *mode = detail(vector, "mode");
	const char *owner = detail(vector, "owner"), *group = detail(vector, "group");

	if (owner || group)
		assert_int_equal(chown(path, owner ? (uid_t)atoi(owner) : (uid_t)-1,
				       group ? (gid_t)atoi(group) : (gid_t)-1),
				 0);
	if (mode)
		assert_int_equal(chmod(path, (mode_t)strtoul(mode, NULL, 8)), 0);
}

/* The path of the file to be executed, into `path`. */
static void make(const struct vector *vector, char *path)
{
	const char *scripts = detail(vector, "scripts"), *beside = detail(vector, "beside");
	const char *kind = vector->words[2];
	char line[PATH_MAX + 4], other[PATH_MAX], name[32];

	in_directory(path, "program");
	if (beside) {
		in_directory(other, beside);
		write_file(other, "", 0);
	}
	if (strcmp(kind, "directory") == 0)
		assert_int_equal(mkdir(path, 0755), 0);
	else if (strcmp(kind, "bytes") == 0)
		write_text(path, detail(vector, "contents"));
	else if (strcmp(kind, "elf") == 0)
		write_elf(path, vector);
	else
		vector_assert(vector, strcmp(kind, "missing") == 0);
	set_rights(vector, path);
	for (int i = 0; scripts && i < atoi(scripts); i++) {
		snprintf(line, sizeof(line), "#!%s\n", path);
		snprintf(name, sizeof(name), "script%d", i);
		in_directory(path, name);
		write_file(path, line, strlen(line));
	}
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status, (void)kind, (void)walk;
	return remove(path);
}

/* clang-format off */
#define REASON(reason, name, why) {name, why},
static const struct {
	const char *name, *why;
} reasons[] = {
	TEK_TARGETS_PASSED(REASON)
	TEK_TARGETS_DISTURBED(REASON)
	TEK_TARGETS_FIRST_LIBRARIES(REASON)
	TEK_TARGETS_SANITIZERS(REASON)
	TEK_TARGETS_UTHREAD_LIBRARIES(REASON)
	TEK_TARGETS_UTHREAD_NOTES(REASON)
	TEK_TARGETS_UTHREAD_FILES(REASON)
};
/* clang-format on */

static const char *text_of(const struct vector *vector, const char *answer)
{
	if (strcmp(answer, "fits") == 0)
		return "fits";
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(reasons[i].name, answer) == 0)
			return reasons[i].why;
	vector_fail(vector, "no reason has the name %s", answer);
	return NULL;
}

/* The word with the answer: 0 for libtek.so, 1 for libtek-uthread.so. */
static unsigned int answer_word;

static bool can_give_privileges(void)
{
	struct statvfs system;

	return geteuid() == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 &&
	       statvfs("/tmp", &system) == 0 && !(system.f_flag & ST_NOSUID);
}

static void check(const struct vector *vector)
{
	char path[PATH_MAX];

	if ((detail(vector, "owner") || detail(vector, "group")) && !can_give_privileges()) {
		print_message("# targets.txt:%u needs root, and that /tmp is not nosuid\n",
			      vector->line);
		return;
	}
	strcpy(directory, "/tmp/tek-targets-XXXXXX");
	assert_non_null(mkdtemp(directory));
	make(vector, path);
	const struct tek_verdict verdict = tek__target_examine(AT_FDCWD, path);
	nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	const char *expected = text_of(vector, vector->words[answer_word]);
	const char *why = verdict.fit == TEK_FITS ? "fits" : verdict.why;
	if (strcmp(why, expected) != 0)
		vector_fail(vector, "the program %s", why);
}

static void programs_are_judged_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("targets.txt", check);
}

/* The last one: the library knows these programs from then on. */
static void programs_on_user_level_threads_are_judged_as_tek_does(void **state)
{
	(void)state;
	tek__target_add_uthreads();
	answer_word = 1;
	for_each_vector("targets.txt", check);
}

static int copy_loader(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			strncpy(own_loader,
				(const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
				sizeof(own_loader) - 1);
	return 1; /* the program is the first */
}

static int start(void **state)
{
	(void)state;
	tek__target_start();
	dl_iterate_phdr(copy_loader, NULL);
	return strchr(own_loader, '/') ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_are_judged_as_tek_does),
		cmocka_unit_test(programs_on_user_level_threads_are_judged_as_tek_does),
	};
	return cmocka_run_group_tests(tests, start, NULL);
}
