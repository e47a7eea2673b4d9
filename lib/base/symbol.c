/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/symbol.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file as memory; nothing in it is to be trusted, alignment included. */
struct image {
	const unsigned char *bytes;
	size_t size;
};

static bool copy(const struct image *image, uint64_t offset, void *to, size_t bytes)
{
	if (offset > image->size || bytes > image->size - offset)
		return false;
	memcpy(to, image->bytes + offset, bytes);
	return true;
}

/* A name that ends within `most` bytes. */
static bool copy_name(char *to, size_t size, const char *name, size_t most)
{
	size_t length = strnlen(name, most < size ? most : size);
	if (length == 0 || length == most || length >= size)
		return false;
	memcpy(to, name, length + 1);
	return true;
}

static bool get_section(const struct image *image, const ElfW(Ehdr) * header, uint32_t index,
			ElfW(Shdr) * section)
{
	return index < header->e_shnum &&
	       copy(image, header->e_shoff + (uint64_t)index * sizeof(*section), section,
		    sizeof(*section));
}

static bool search(const struct image *image, const ElfW(Shdr) * symbols,
		   const ElfW(Shdr) * strings, uint64_t address, char *name, size_t size)
{
	ElfW(Sym) symbol;

	if (strings->sh_offset > image->size || strings->sh_size > image->size - strings->sh_offset)
		return false;
	for (uint64_t at = 0; at + sizeof(symbol) <= symbols->sh_size; at += sizeof(symbol)) {
		if (!copy(image, symbols->sh_offset + at, &symbol, sizeof(symbol)))
			return false;
		unsigned char type = symbol.st_info & 0xf; /* the same in both classes */
		if (symbol.st_value != address || symbol.st_shndx == SHN_UNDEF ||
		    (type != STT_FUNC && type != STT_OBJECT) || symbol.st_name >= strings->sh_size)
			continue;
		const unsigned char *text = image->bytes + strings->sh_offset + symbol.st_name;
		if (copy_name(name, size, (const char *)text, strings->sh_size - symbol.st_name))
			return true;
	}
	return false;
}

bool tek__symbol_in_file(const void *bytes, size_t length, uint64_t address, char *name,
			 size_t size)
{
	const struct image image = {.bytes = bytes, .size = length};
	ElfW(Shdr) symbols, strings;
	ElfW(Ehdr) header;

	if (!copy(&image, 0, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    header.e_shentsize != sizeof(symbols))
		return false;
	/* .symtab has all of them; a stripped file has .dynsym, those that it exports. */
	for (uint32_t i = 0; get_section(&image, &header, i, &symbols); i++)
		if ((symbols.sh_type == SHT_SYMTAB || symbols.sh_type == SHT_DYNSYM) &&
		    get_section(&image, &header, symbols.sh_link, &strings) &&
		    search(&image, &symbols, &strings, address, name, size))
			return true;
	return false;
}

bool tek__symbol_of(const char *path, uint64_t address, char *name, size_t size)
{
	struct stat status;
	bool found = false;
	int saved = errno, cancellation;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
		size_t bytes = (size_t)status.st_size;
		void *image = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
		if (image != MAP_FAILED) {
			found = tek__symbol_in_file(image, bytes, address, name, size);
			munmap(image, bytes);
		}
	}
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(cancellation, NULL);
	errno = saved;
	return found;
}
