// SPDX-License-Identifier: MIT OR Apache-2.0
//
// torture SECONDS [THREADS]: threads that are in the C and C++ libraries all the time. The code
// there holds locks, has data for each thread, or unwinds stacks. Each checks its results; the
// first that finds an error ends the program, and so does one that has done nothing for 10 seconds.
// All do all the jobs in turn, and none waits for another, so a preempted thread is always in the
// middle of something.
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <netdb.h>
#include <pthread.h>
#include <regex.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr int CHECKS_A_SECOND = 10;
constexpr int STANDS_STILL_CHECKS = 10 * CHECKS_A_SECOND;
constexpr size_t SHARED_BLOCKS = 64;

std::atomic<bool> stop;
std::atomic<int> destroyed; // by unwinding
FILE *shared_file;          // of all threads
std::string localhost;      // its address here; empty: not resolvable
thread_local unsigned own_number;

[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	int bytes = vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	text[bytes++] = '\n';
	if (write(STDERR_FILENO, text, static_cast<size_t>(bytes)) < 0)
		abort();
	abort();
}

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			fail("thread %u, line %d: %s", own_number, __LINE__, #condition); \
	} while (0)

struct Random {
	uint64_t state;

	uint32_t operator()(uint32_t below)
	{
		state = state * 6364136223846793005u + 1442695040888963407u;
		return static_cast<uint32_t>((state >> 33) % below);
	}
};

// Blocks of memory that one thread fills and another one reads and frees.
struct Block {
	size_t bytes;
	unsigned char fill;
	unsigned char content[];

	bool is_whole() const
	{
		for (size_t i = 0; i < bytes; i++)
			if (content[i] != fill)
				return false;
		return true;
	}
};

std::atomic<Block *> shared_blocks[SHARED_BLOCKS];

void allocate(Random &random)
{
	Block *mine[32] = {};

	for (int i = 0; i < 200; i++) {
		Block *&place = mine[random(32)];
		const size_t bytes = random(100) ? random(2000) : random(300000);
		if (place) {
			CHECK(place->is_whole());
			if (random(2)) {
				std::atomic<Block *> &shared = shared_blocks[random(SHARED_BLOCKS)];
				place = shared.exchange(place);
				if (place)
					CHECK(place->is_whole());
			}
			free(place);
			place = nullptr;
			continue;
		}
		place = static_cast<Block *>(random(2) ? malloc(sizeof(Block) + bytes)
						       : calloc(1, sizeof(Block) + bytes));
		CHECK(place);
		place->bytes = bytes;
		place->fill = static_cast<unsigned char>(random(256));
		memset(place->content, place->fill, bytes);
		if (random(4) == 0 && bytes) {
			place = static_cast<Block *>(realloc(place, sizeof(Block) + bytes / 2));
			place->bytes = bytes / 2;
		}
	}
	for (Block *&block : mine)
		free(block);
}

void print(Random &random)
{
	char *text = nullptr;
	size_t bytes = 0;
	const uint32_t number = random(1000000);
	const double real = number / 8.0;

	// A stream in memory, read back by another one.
	std::unique_ptr<FILE, int (*)(FILE *)> out(open_memstream(&text, &bytes), fclose);
	CHECK(out);
	for (uint32_t i = 0; i < 20; i++)
		CHECK(fprintf(out.get(), "%u %.3f %s\n", number + i, real, "word") > 0);
	out.reset();
	std::unique_ptr<FILE, int (*)(FILE *)> in(fmemopen(text, bytes, "r"), fclose);
	CHECK(in);
	for (uint32_t i = 0; i < 20; i++) {
		uint32_t got;
		double got_real;
		char word[8];
		CHECK(fscanf(in.get(), "%u %lf %7s", &got, &got_real, word) == 3);
		CHECK(got == number + i && got_real == real && strcmp(word, "word") == 0);
	}
	free(text);

	// A line of a stream that all write to.
	CHECK(fprintf(shared_file, "[%u says %u %u]\n", own_number, number, number) > 0);
}

std::string first_address(const addrinfo *list)
{
	char text[INET6_ADDRSTRLEN] = "";

	if (list && list->ai_family == AF_INET)
		inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(list->ai_addr)->sin_addr,
			  text, sizeof(text));
	return text;
}

std::string address_of(const char *name)
{
	addrinfo wanted = {}, *list = nullptr;

	wanted.ai_family = AF_INET;
	wanted.ai_socktype = SOCK_STREAM;
	int error = getaddrinfo(name, "80", &wanted, &list);
	const std::string address = error ? "" : first_address(list);
	if (!error)
		freeaddrinfo(list);
	return address;
}

void resolve(Random &random)
{
	char text[32];

	snprintf(text, sizeof(text), "10.1.%u.%u", random(256), random(256));
	CHECK(address_of(text) == text);
	CHECK(address_of("localhost") == localhost);
}

int compare(const void *one, const void *other)
{
	const auto a = *static_cast<const uint32_t *>(one);
	const auto b = *static_cast<const uint32_t *>(other);
	return a < b ? -1 : a > b;
}

void sort(Random &random)
{
	// On both sides of the size that the C library sorts without allocating.
	std::vector<uint32_t> numbers(random(2) ? 100 : 2000);
	uint64_t sum = 0;

	for (uint32_t &number : numbers)
		sum += number = random(1000000);
	qsort(numbers.data(), numbers.size(), sizeof(numbers[0]), compare);
	for (size_t i = 0; i < numbers.size(); i++) {
		CHECK(i == 0 || numbers[i - 1] <= numbers[i]);
		sum -= numbers[i];
	}
	CHECK(sum == 0);
}

void match(Random &random)
{
	regex_t pattern;
	regmatch_t found[3];
	char text[64];
	const uint32_t number = random(100000);

	CHECK(regcomp(&pattern, "^([a-z]+)=(0x)?[0-9a-f]+( |$)", REG_EXTENDED) == 0);
	int bytes = snprintf(text, sizeof(text), "name=%s%x", number % 2 ? "0x" : "", number);
	CHECK(regexec(&pattern, text, 3, found, 0) == 0);
	CHECK(found[0].rm_eo == bytes && found[1].rm_eo == 4);
	CHECK((found[2].rm_so >= 0) == (number % 2 == 1));
	CHECK(regexec(&pattern, "=12", 3, found, 0) == REG_NOMATCH);
	regfree(&pattern);
}

struct Counted {
	~Counted()
	{
		destroyed++;
		mine++;
	}
	static thread_local int mine;
};
thread_local int Counted::mine;

__attribute__((noinline)) int descend(int depth, const std::string &what)
{
	Counted counted;

	if (depth == 0)
		throw std::runtime_error(what);
	return descend(depth - 1, what) + 1;
}

void unwind(Random &random)
{
	const int depth = static_cast<int>(random(20));
	const std::string what = "for thread " + std::to_string(own_number) + " from " +
				 std::to_string(depth);
	std::exception_ptr retained;

	Counted::mine = 0;
	try {
		try {
			descend(depth, what);
		} catch (const std::logic_error &) {
			fail("thread %u: another exception", own_number);
		} catch (...) {
			CHECK(Counted::mine == depth + 1);
			retained = std::current_exception();
			throw;
		}
	} catch (const std::runtime_error &error) {
		CHECK(error.what() == what);
	}
	try {
		std::rethrow_exception(retained);
	} catch (const std::exception &error) {
		CHECK(error.what() == what);
	}
	CHECK(std::uncaught_exceptions() == 0);
}

void (*const jobs[])(Random &) = {allocate, print, resolve, sort, match, unwind};
constexpr size_t JOBS = sizeof(jobs) / sizeof(jobs[0]);

struct Thread {
	pthread_t handle;
	unsigned number;
	std::atomic<uint64_t> rounds;
	uint64_t seen; // of rounds, at the last poll
	int still;     // number of polls without progress
	int stillest;
};

void *torture(void *argument)
{
	Thread *self = static_cast<Thread *>(argument);
	Random random = {self->number + 1};

	own_number = self->number;
	for (size_t job = self->number; !stop; job++) {
		jobs[job % JOBS](random);
		CHECK(own_number == self->number);
		self->rounds++;
		// It keeps the thread's value, whatever thread ran meanwhile.
		errno = static_cast<int>(self->number) + 1000;
		for (volatile int i = 0; i < 1000; i++)
			;
		CHECK(errno == static_cast<int>(self->number) + 1000);
	}
	return nullptr;
}

void watch(std::vector<Thread> &threads, int seconds)
{
	const time_t end = time(nullptr) + seconds;

	// Pauses are counted in polls, not time: where the whole program stands still, no thread is
	// to blame.
	while (time(nullptr) < end) {
		usleep(1000000 / CHECKS_A_SECOND);
		for (Thread &thread : threads) {
			const uint64_t rounds = thread.rounds;
			thread.still = rounds == thread.seen ? thread.still + 1 : 0;
			thread.seen = rounds;
			if (thread.still > thread.stillest)
				thread.stillest = thread.still;
			if (thread.still > STANDS_STILL_CHECKS)
				fail("thread %u stands still after %" PRIu64 " rounds",
				     thread.number, rounds);
		}
	}
}

// Every line of the shared file is one that a thread has written, whole.
uint64_t count_lines()
{
	char line[80];
	uint64_t lines = 0;

	rewind(shared_file);
	while (fgets(line, sizeof(line), shared_file)) {
		unsigned subject, one, other;
		char end;
		if (sscanf(line, "[%u says %u %u%c", &subject, &one, &other, &end) != 4 ||
		    one != other || end != ']')
			fail("a line is not whole: %s", line);
		lines++;
	}
	return lines;
}

} // namespace

int main(int argc, char **argv)
{
	const int seconds = argc > 1 ? atoi(argv[1]) : 60;
	std::vector<Thread> threads(argc > 2 ? static_cast<size_t>(atoi(argv[2])) : 100);
	uint64_t rounds = 0, least = UINT64_MAX;
	int stillest = 0;

	shared_file = tmpfile();
	CHECK(shared_file);
	localhost = address_of("localhost");
	for (Thread &thread : threads) {
		thread.number = static_cast<unsigned>(&thread - threads.data());
		CHECK(pthread_create(&thread.handle, nullptr, torture, &thread) == 0);
	}
	watch(threads, seconds);
	stop = true;
	for (Thread &thread : threads) {
		CHECK(pthread_join(thread.handle, nullptr) == 0);
		rounds += thread.rounds;
		least = thread.rounds < least ? thread.rounds.load() : least;
		stillest = thread.stillest > stillest ? thread.stillest : stillest;
	}
	printf("%zu threads, %" PRIu64 " rounds, %" PRIu64 " by the slowest, longest pause %d ms, "
	       "%" PRIu64 " lines, %d destructors\n",
	       threads.size(), rounds, least, stillest * 1000 / CHECKS_A_SECOND, count_lines(),
	       destroyed.load());
	return 0;
}
