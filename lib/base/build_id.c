/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/build_id.h"

#include <link.h>
#include <string.h>

void tek__build_id_read(struct tek_module *module, const char *note, size_t size)
{
	ElfW(Nhdr) header;

	while (size >= sizeof(header)) {
		memcpy(&header, note, sizeof(header));
		size_t name = (header.n_namesz + 3u) & ~(size_t)3;
		size_t text = (header.n_descsz + 3u) & ~(size_t)3;
		if (name > size - sizeof(header) || text > size - sizeof(header) - name)
			return;
		const char *id = note + sizeof(header) + name;
		if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
		    memcmp(note + sizeof(header), "GNU", 4) == 0) {
			size_t bytes = header.n_descsz;
			if (bytes > sizeof(module->build_id))
				bytes = sizeof(module->build_id);
			memcpy(module->build_id, id, bytes);
			module->build_id_bytes = (tek_u32)bytes;
			return;
		}
		note = id + text;
		size -= sizeof(header) + name + text;
	}
}
