/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The attributes of threads: set, read, refused, and found for threads of any creator. */
#include "attributes_support.h"
#include "rounds.h"

static void what_was_set_is_read_by_handle_and_by_tid(void **state)
{
	const struct tek_attributes wanted = {
		.role = "gas detection", .critical = 1, .group = TEK_SERVICE};
	struct tek_attributes by_tid;
	struct waiter waiter;

	(void)state;
	waiter_start(&waiter, NULL);
	assert_int_equal(tek_thread_set_attributes(waiter.thread,
						   TEK_ATTRIBUTE_ROLE | TEK_ATTRIBUTE_CRITICAL |
							   TEK_ATTRIBUTE_GROUP,
						   &wanted),
			 0);
	struct tek_attributes got = attributes_of(waiter.thread);
	assert_string_equal(got.role, "gas detection");
	assert_int_equal(got.critical, 1);
	assert_int_equal(got.group, TEK_SERVICE);
	assert_int_equal(got.tid, waiter.tid);
	assert_int_equal(tek_tid_get_attributes(waiter.tid, &by_tid), 0);
	assert_string_equal(by_tid.role, "gas detection");
	assert_int_equal(by_tid.created_ns, got.created_ns);
	waiter_end(&waiter);
}

static void attributes_that_are_not_named_stay(void **state)
{
	struct tek_attributes other = {.role = "not meant", .critical = 1, .group = TEK_URGENT};

	(void)state;
	assert_int_equal(set_role(pthread_self(), "kept"), 0);
	assert_int_equal(tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_GROUP, &other), 0);
	struct tek_attributes got = attributes_of(pthread_self());
	assert_string_equal(got.role, "kept");
	assert_int_equal(got.critical, 0);
	assert_int_equal(got.group, TEK_URGENT);
	other.group = TEK_NORMAL;
	assert_int_equal(tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_GROUP, &other), 0);
}

static void a_role_may_be_63_bytes_of_utf8_and_not_one_more(void **state)
{
	struct tek_attributes attributes = {0};

	(void)state;
	assert_int_equal(set_role(pthread_self(), "before"), 0);
	memset(attributes.role, 'x', sizeof(attributes.role));
	assert_int_equal(tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes),
			 ENAMETOOLONG);
	assert_string_equal(attributes_of(pthread_self()).role, "before");
	attributes.role[63] = '\0';
	assert_int_equal(tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes),
			 0);
	assert_int_equal(strlen(attributes_of(pthread_self()).role), 63);
	assert_int_equal(set_role(pthread_self(), "Gaswächter 煤气 🔥"), 0);
	assert_string_equal(attributes_of(pthread_self()).role, "Gaswächter 煤气 🔥");
}

static void a_role_that_is_not_utf8_is_refused(void **state)
{
	static const char *const bad[] = {
		"\xff", "a\xc3",    "\xc0\xaf",        "\xed\xa0\x80", "\xf4\x90\x80\x80",
		"\x80", "\xe2\x82", "\xf8\x88\x80\x80"};

	(void)state;
	assert_int_equal(set_role(pthread_self(), "before"), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(set_role(pthread_self(), bad[i]), EILSEQ);
	assert_string_equal(attributes_of(pthread_self()).role, "before");
}

static void a_shorter_role_leaves_nothing_of_a_longer_one(void **state)
{
	(void)state;
	assert_int_equal(set_role(pthread_self(), "a long role with many words"), 0);
	assert_int_equal(set_role(pthread_self(), "short"), 0);
	assert_string_equal(attributes_of(pthread_self()).role, "short");
	assert_int_equal(set_role(pthread_self(), ""), 0);
	assert_string_equal(attributes_of(pthread_self()).role, "");
}

static void one_bad_attribute_refuses_all(void **state)
{
	const struct tek_attributes bad[] = {
		{.role = "new", .group = 4},
		{.role = "new", .critical = 2},
		{.role = "new", .policy = SCHED_OTHER, .priority = 20},
		{.role = "new", .policy = SCHED_RR, .priority = 0},
		{.role = "new", .policy = 77},
		{.role = "new", .policy = SCHED_TEK, .priority = -21},
	};

	(void)state;
	assert_int_equal(set_role(pthread_self(), "before"), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(
			tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTES_ALL, &bad[i]),
			EINVAL);
	assert_int_equal(tek_thread_set_attributes(pthread_self(), 16, &bad[0]), EINVAL);
	assert_string_equal(attributes_of(pthread_self()).role, "before");
	assert_int_equal(kernel_policy(0), SCHED_OTHER);
}

static void policy_and_priority_reach_the_kernel(void **state)
{
	struct waiter waiter;
	struct tek_attributes wanted = {.policy = SCHED_BATCH, .priority = 7};

	(void)state;
	need_real_time();
	waiter_start(&waiter, NULL);
	assert_int_equal(tek_tid_set_attributes(waiter.tid, TEK_ATTRIBUTE_POLICY, &wanted), 0);
	assert_int_equal(kernel_policy(waiter.tid), SCHED_BATCH);
	assert_int_equal(kernel_nice(waiter.tid), 7);
	assert_int_equal(attributes_of(waiter.thread).policy, SCHED_BATCH);
	assert_int_equal(attributes_of(waiter.thread).priority, 7);

	wanted = (struct tek_attributes){.policy = SCHED_TEK, .priority = -3};
	assert_int_equal(tek_tid_set_attributes(waiter.tid, TEK_ATTRIBUTE_POLICY, &wanted), 0);
	assert_true(is_fast(waiter.tid));
	assert_int_equal(attributes_of(waiter.thread).policy, SCHED_TEK);
	assert_int_equal(attributes_of(waiter.thread).priority, -3);

	wanted = (struct tek_attributes){.policy = SCHED_FIFO, .priority = 5};
	assert_int_equal(tek_tid_set_attributes(waiter.tid, TEK_ATTRIBUTE_POLICY, &wanted), 0);
	assert_int_equal(kernel_policy(waiter.tid), SCHED_FIFO);
	assert_int_equal(kernel_rt_priority(waiter.tid), 5);
	assert_int_equal(attributes_of(waiter.thread).priority, 5);
	waiter_end(&waiter);
}

static void what_was_read_and_changed_a_little_can_be_set(void **state)
{
	struct tek_attributes attributes = attributes_of(pthread_self());

	(void)state;
	strcpy(attributes.role, "changed");
	assert_int_equal(pthread_set_attributes(pthread_self(), &attributes), 0);
	struct tek_attributes after = attributes_of(pthread_self());
	assert_string_equal(after.role, "changed");
	assert_int_equal(after.policy, attributes.policy);
	assert_int_equal(after.priority, attributes.priority);
}

static void a_stay_in_the_fast_region_is_no_policy_to_set_again(void **state)
{
	struct tek_attributes attributes;

	(void)state;
	need_real_time();
	assert_int_equal(tek_critical_enter(), 0);
	attributes = attributes_of(pthread_self());
	assert_int_equal(attributes.policy, SCHED_OTHER);
	assert_int_equal(tek_critical_leave(), 0);
	assert_int_equal(pthread_set_attributes(pthread_self(), &attributes), 0);
	assert_false(is_fast(0));
}

static void a_policy_set_by_other_calls_is_read_too(void **state)
{
	const struct sched_param idle = {0};
	struct waiter waiter;

	(void)state;
	waiter_start(&waiter, NULL);
	assert_int_equal(pthread_setschedparam(waiter.thread, SCHED_IDLE, &idle), 0);
	assert_int_equal(attributes_of(waiter.thread).policy, SCHED_IDLE);
	waiter_end(&waiter);
}

static void the_kernel_can_be_asked_for_a_change_made_past_tek(void **state)
{
	struct waiter waiter;

	(void)state;
	waiter_start(&waiter, NULL);
	assert_int_equal(setpriority(PRIO_PROCESS, (id_t)waiter.tid, 19), 0);
	struct tek_attributes attributes = attributes_of(waiter.thread);
	assert_int_equal(attributes.vm_bytes, 0);
	assert_int_equal(tek_attributes_refresh(&attributes), 0);
	assert_int_equal(attributes.priority, 19);
	assert_true(attributes.vm_bytes > 1000000);
	waiter_end(&waiter);
	assert_int_equal(tek_attributes_refresh(&attributes), ESRCH);
}

static void the_stack_size_is_what_the_thread_got(void **state)
{
	pthread_attr_t attr;
	struct waiter waiter;

	(void)state;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	waiter_start(&waiter, &attr);
	pthread_attr_destroy(&attr);
	/* The C library may reuse a larger stack, and sanitizers want larger ones. */
	assert_in_range(attributes_of(waiter.thread).stack_bytes, 256 * 1024, 4 << 20);
	waiter_end(&waiter);
}

static void a_child_has_its_creators_group_but_not_its_role(void **state)
{
	struct waiter waiter;

	(void)state;
	set_role(pthread_self(), "parent");
	tek_thread_set_group(pthread_self(), TEK_BACKGROUND);
	waiter_start(&waiter, NULL);
	tek_thread_set_group(pthread_self(), TEK_NORMAL);
	assert_int_equal(attributes_of(waiter.thread).group, TEK_BACKGROUND);
	assert_string_equal(attributes_of(waiter.thread).role, "");
	waiter_end(&waiter);
}

static void an_ended_thread_is_not_found(void **state)
{
	struct tek_attributes attributes = {.role = "late"};
	struct waiter waiter;

	(void)state;
	waiter_start(&waiter, NULL);
	waiter_end(&waiter);
	assert_int_equal(tek_tid_get_attributes(waiter.tid, &attributes), ESRCH);
	assert_int_equal(tek_tid_set_attributes(waiter.tid, TEK_ATTRIBUTE_ROLE, &attributes),
			 ESRCH);
	assert_int_equal(tek_tid_get_attributes(-1, &attributes), EINVAL);
}

static void *end_at_once(void *tid)
{
	*(pid_t *)tid = tek_gettid();
	return NULL;
}

/* The C library has joined it when the kernel has not quite done with it. */
static void a_thread_that_was_joined_is_not_found_however_soon_one_asks(void **state)
{
	struct tek_attributes attributes;
	pthread_t thread;
	pid_t tid = 0;

	(void)state;
	for (int i = 0, end = rounds(20000); i < end; i++) {
		assert_int_equal(pthread_create(&thread, NULL, end_at_once, &tid), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(tek_tid_get_attributes(tid, &attributes), ESRCH);
	}
}

static void a_thread_that_libc_made_is_found_by_its_tid_and_its_handle(void **state)
{
	struct tek_attributes attributes = {.role = "by tid"};
	struct waiter waiter = {0};
	pthread_t thread;

	(void)state;
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer does not know such a thread\n");
	skip();
#endif
	pthread_barrier_init(&waiter.ready, NULL, 2);
	pthread_mutex_init(&waiter.lock, NULL);
	pthread_cond_init(&waiter.changed, NULL);
	assert_int_equal(create_unseen(&thread, waiter_main, &waiter), 0);
	pthread_barrier_wait(&waiter.ready);
	assert_int_equal(tek_tid_set_attributes(waiter.tid, TEK_ATTRIBUTE_ROLE, &attributes), 0);
	assert_string_equal(attributes_of(thread).role, "by tid");
	pthread_mutex_lock(&waiter.lock);
	waiter.end = true;
	pthread_cond_signal(&waiter.changed);
	pthread_mutex_unlock(&waiter.lock);
	join_unseen(thread);
	assert_int_equal(tek_tid_get_attributes(waiter.tid, &attributes), ESRCH);
}

static void what_is_set_before_a_thread_has_begun_stays(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct tek_attributes group = {.role = "early", .group = TEK_SERVICE};
		struct waiter waiter;
		waiter_start_unsynchronised(&waiter, NULL);
		assert_int_equal(tek_thread_set_attributes(waiter.thread,
							   TEK_ATTRIBUTE_GROUP | TEK_ATTRIBUTE_ROLE,
							   &group),
				 0);
		pthread_barrier_wait(&waiter.ready);
		assert_int_equal(attributes_of(waiter.thread).group, TEK_SERVICE);
		assert_string_equal(attributes_of(waiter.thread).role, "early");
		waiter_end(&waiter);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_set_is_read_by_handle_and_by_tid),
		cmocka_unit_test(attributes_that_are_not_named_stay),
		cmocka_unit_test(a_role_may_be_63_bytes_of_utf8_and_not_one_more),
		cmocka_unit_test(a_role_that_is_not_utf8_is_refused),
		cmocka_unit_test(a_shorter_role_leaves_nothing_of_a_longer_one),
		cmocka_unit_test(one_bad_attribute_refuses_all),
		cmocka_unit_test(policy_and_priority_reach_the_kernel),
		cmocka_unit_test(what_was_read_and_changed_a_little_can_be_set),
		cmocka_unit_test(a_stay_in_the_fast_region_is_no_policy_to_set_again),
		cmocka_unit_test(a_policy_set_by_other_calls_is_read_too),
		cmocka_unit_test(the_kernel_can_be_asked_for_a_change_made_past_tek),
		cmocka_unit_test(the_stack_size_is_what_the_thread_got),
		cmocka_unit_test(a_child_has_its_creators_group_but_not_its_role),
		cmocka_unit_test(an_ended_thread_is_not_found),
		cmocka_unit_test(a_thread_that_was_joined_is_not_found_however_soon_one_asks),
		cmocka_unit_test(a_thread_that_libc_made_is_found_by_its_tid_and_its_handle),
		cmocka_unit_test(what_is_set_before_a_thread_has_begun_stays),
	};
	return cmocka_run_group_tests_name("attributes", tests, NULL, NULL);
}
