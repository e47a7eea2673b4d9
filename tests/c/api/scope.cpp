// SPDX-License-Identifier: MIT OR Apache-2.0
// The C++ header: scopes nest, end with the block and with an exception.
#include <tek/tek.hpp>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <thread>

// AddressSanitizer wants to be the first library; tests/meson.build says why it is not.
extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options()
{
	return "verify_asan_link_order=0";
}

static int failures;

static void expect(const char *what, bool good)
{
	std::printf("%s: %s\n", what, good ? "ok" : "FAILED");
	failures += !good;
}

static bool fast()
{
	return sched_getscheduler(0) == SCHED_TEK;
}

int main()
{
	if (tek_check() != 0) {
		std::puts("needs CAP_SYS_NICE or RLIMIT_RTPRIO");
		return 77; // Meson: skipped
	}
	{
		tek::critical_scope outer;
		expect("a scope is critical", outer && outer.error() == 0 && fast());
		{
			tek::critical_scope inner;
			expect("a scope in a scope is too", fast());
		}
		expect("the outer one stays", fast());
		std::thread([] { expect("a thread made in it is not", !fast()); }).join();
	}
	expect("the end of the block ends it", !fast());
	try {
		tek::critical_scope scope;
		throw std::runtime_error("out");
	} catch (const std::exception &) {
	}
	expect("an exception ends it", !fast());
	expect("no time is no stay", tek::critical_for(std::chrono::seconds(-1)) == EINVAL);
	expect("a duration of any unit will do",
	       tek::critical_for(std::chrono::milliseconds(5000)) == 0 && fast());
	return failures != 0;
}
