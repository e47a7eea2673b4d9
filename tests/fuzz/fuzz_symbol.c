/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The reader of symbols: any bytes for the file that a function lies in. */
#include "base/symbol.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct beginning {
	ElfW(Ehdr) header;
	ElfW(Shdr) sections[2];
};

/* Half of the files begin as an ELF file does, so that what comes behind is reached too. */
static void make_plausible(uint8_t *image, size_t size)
{
	struct beginning beginning = {
		.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
				       sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32},
			   .e_shentsize = sizeof(ElfW(Shdr)),
			   .e_shoff = offsetof(struct beginning, sections),
			   .e_shnum = 2},
		.sections = {{.sh_type = SHT_SYMTAB, .sh_link = 1}},
	};

	if (size < sizeof(beginning))
		return;
	/* Offsets and sizes that are somewhere near the file. */
	for (unsigned int i = 0; i < 2; i++) {
		beginning.sections[i].sh_offset = sizeof(beginning) - 4 + image[4 * i];
		beginning.sections[i].sh_size = image[4 * i + 1] * (i ? 1 : sizeof(ElfW(Sym)));
	}
	memcpy(image, &beginning, sizeof(beginning));
}

/* The first byte of the input chooses the kind of file, and the address to search. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[64];

	if (size == 0)
		return 0;
	uint8_t *image = malloc(size - 1); /* exact: the sanitizer sees a byte too far */
	memcpy(image, data + 1, size - 1);
	if (data[0] & 1)
		make_plausible(image, size - 1);
	if (tek__symbol_in_file(image, size - 1, data[0] >> 1, name, sizeof(name)) &&
	    (!name[0] || strnlen(name, sizeof(name)) == sizeof(name)))
		abort();
	free(image);
	return 0;
}
