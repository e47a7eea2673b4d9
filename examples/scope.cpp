// SPDX-License-Identifier: MIT OR Apache-2.0
//
// scope - a thread that is time-critical for one block.
//
// Prints whether it was critical.  Without a privilege the block runs as ordinary code.
#include <cstdio>
#include <cstring>
#include <tek/tek.hpp>
#include <thread>

static bool was_critical;

static void answer()
{
	tek::set_role("touch input");

	tek::critical_scope critical; // to the end of the block
	was_critical = static_cast<bool>(critical);
	if (!critical)
		std::fprintf(stderr, "not time-critical: %s\n", std::strerror(critical.error()));
	// The work that a user waits for stands here.
}

int main()
{
	std::thread(answer).join();
	std::puts(was_critical ? "critical for one block" : "ordinary");
}
