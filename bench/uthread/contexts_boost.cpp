// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contexts.h"

#include <boost/context/detail/fcontext.hpp>

using namespace boost::context::detail;

static void switch_back(transfer_t from)
{
	for (;;)
		from = jump_fcontext(from.fctx, nullptr);
}

void switch_boost(char *stack, uint64_t times)
{
	transfer_t other{
		make_fcontext(stack + CONTEXT_STACK_BYTES, CONTEXT_STACK_BYTES, switch_back),
		nullptr};
	for (uint64_t i = 0; i < times; i++)
		other = jump_fcontext(other.fctx, nullptr);
}
