// SPDX-License-Identifier: MIT OR Apache-2.0
// Three kinds of callable behind the one start routine of std::thread; each thread sleeps
// until the end of standard input.
#include <cstdio>
#include <ctime>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>

static bool stop;

static void sleep_as(const char *name)
{
	pthread_setname_np(pthread_self(), name);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		usleep(10000);
}

static void cool_down(int)
{
	sleep_as("pointer");
}

struct Defroster {
	void operator()(const std::string &) const { sleep_as("functor"); }
};

int main()
{
	int degrees = 4;
	std::thread pointer(cool_down, degrees);
	std::thread lambda([degrees] { sleep_as(degrees == 4 ? "lambda" : "wrong"); });
	std::thread functor(Defroster(), std::string("slowly"));

	alarm(60); // it must end by itself
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pointer.join();
	lambda.join();
	functor.join();
}
