// SPDX-License-Identifier: MIT OR Apache-2.0
// tek/tek.hpp - scoped time-critical sections and roles for C++11 and later.
#ifndef TEK_TEK_HPP
#define TEK_TEK_HPP

#include <tek/tek.h>

#include <cerrno>
#include <chrono>
#include <string>

namespace tek {

// The thread that creates a critical_scope is in the Fast Region until the scope
// ends.  Scopes nest.  Where TEK may not do it the program runs on as it is:
// error() says why, nothing is thrown.  A scope must end in the thread that
// created it, so it can be neither copied nor moved.
class critical_scope {
public:
	critical_scope() noexcept : error_(tek_critical_enter()) {}
	~critical_scope()
	{
		if (error_ == 0)
			tek_critical_leave();
	}
	critical_scope(const critical_scope &) = delete;
	critical_scope &operator=(const critical_scope &) = delete;

	// 0, or the error number of tek_critical_enter().
	int error() const noexcept { return error_; }
	explicit operator bool() const noexcept { return error_ == 0; }

private:
	int error_;
};

// tek_critical_for() with a duration; EINVAL for one that is not positive.
template <class Rep, class Period>
int critical_for(std::chrono::duration<Rep, Period> duration) noexcept
{
	const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
	return tek_critical_for(ns > 0 ? static_cast<uint64_t>(ns) : 0);
}

// What the calling thread is for: up to 63 bytes of UTF-8.  Returns 0, ENAMETOOLONG or
// EILSEQ; see tek_thread_set_attributes().
inline int set_role(const std::string &role) noexcept
{
	tek_attributes attributes{};
	if (role.size() >= sizeof(attributes.role))
		return ENAMETOOLONG;
	role.copy(attributes.role, role.size());
	return tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes);
}

} // namespace tek

#endif
