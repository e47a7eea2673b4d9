/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Boost.Fiber, with stacks from a pool. */
#ifndef UTHREAD_ON_FIBER_HPP
#define UTHREAD_ON_FIBER_HPP

#include <boost/fiber/condition_variable.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/mutex.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>
#include <memory>
#include <mutex>

#define ON_NAME "Boost.Fiber"

using on_thread = boost::fibers::fiber;
using on_mutex = boost::fibers::mutex;
using on_cond = boost::fibers::condition_variable;

static inline boost::fibers::pooled_fixedsize_stack &on_stacks()
{
	static boost::fibers::pooled_fixedsize_stack stacks;
	return stacks;
}

static inline void on_start()
{
	on_stacks();
}

static inline int on_create(on_thread *thread, void *(*routine)(void *), void *argument)
{
	*thread = on_thread(std::allocator_arg, on_stacks(),
			    [routine, argument] { routine(argument); });
	return 0;
}

static inline void on_join(on_thread *thread)
{
	thread->join();
}

static inline void on_yield()
{
	boost::this_fiber::yield();
}

/* Constructors have done that. */
static inline void on_mutex_init(on_mutex *) {}

static inline void on_cond_init(on_cond *) {}

static inline void on_mutex_lock(on_mutex *mutex)
{
	mutex->lock();
}

static inline void on_mutex_unlock(on_mutex *mutex)
{
	mutex->unlock();
}

static inline void on_cond_wait(on_cond *cond, on_mutex *mutex)
{
	std::unique_lock<on_mutex> lock(*mutex, std::adopt_lock);
	cond->wait(lock);
	lock.release();
}

static inline void on_cond_signal(on_cond *cond)
{
	cond->notify_one();
}

#endif
