// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words for numbers in a record or in the kernel.
use tek_abi::{
    HELD_UP_DEADLOCK, WAITS_BARRIER, WAITS_COND, WAITS_FILE, WAITS_JOIN, WAITS_MUTEX, WAITS_NO,
    WAITS_ONCE, WAITS_PAUSE, WAITS_RWLOCK, WAITS_SEMAPHORE, WAITS_SIGNAL, WAITS_SLEEP, WHY_ENTER,
    WHY_FOLLOW, WHY_LIFT, WHY_POLICY, WHY_RULE, WHY_TIMED,
};
use tek_policy::Group;
use tek_stack::Zone;

/// A group.
pub fn group(number: u8) -> String {
    Group::ALL.get(usize::from(number)).map_or_else(|| number.to_string(), ToString::to_string)
}

/// A scheduling policy of the kernel: the end of its SCHED_*, in small letters.
pub fn policy(number: u32) -> Option<&'static str> {
    let names = ["other", "fifo", "rr", "batch", "iso", "idle", "deadline", "ext"];
    names.get(number as usize).copied()
}

/// The names of the reasons in a set, for which a thread is Fast: TEK_WHY_*, without the prefix.
pub fn reasons(set: u8) -> Vec<&'static str> {
    let all = [
        (WHY_POLICY, "policy"),
        (WHY_ENTER, "enter"),
        (WHY_TIMED, "timed"),
        (WHY_RULE, "rule"),
        (WHY_FOLLOW, "follow"),
        (WHY_LIFT, "lift"),
    ];
    all.into_iter().filter(|(bit, _)| set & bit != 0).map(|(_, name)| name).collect()
}

/// The object of a user-level thread's wait, by [`tek_abi::Side::waits`]: a word, and the
/// completion of "it waits"; `None`: it does not. The engine has the same words, in
/// lib/uthread/wait.c.
pub fn waits(code: u8) -> Option<(&'static str, &'static str)> {
    Some(match code {
        WAITS_NO => return None,
        WAITS_MUTEX => ("mutex", "for a mutex"),
        WAITS_COND => ("cond", "for a signal of a condition variable"),
        WAITS_RWLOCK => ("rwlock", "for a read-write lock"),
        WAITS_BARRIER => ("barrier", "at a barrier, for the rest of its round"),
        WAITS_SEMAPHORE => ("semaphore", "for a semaphore"),
        WAITS_ONCE => ("once", "until another thread has run what is run once"),
        WAITS_JOIN => ("join", "for the end of a thread"),
        WAITS_FILE => ("file", "for a file or a socket"),
        WAITS_SLEEP => ("sleep", "until a certain time"),
        WAITS_SIGNAL => ("signal", "for a signal"),
        WAITS_PAUSE => ("pause", "a moment, to try something again"),
        _ => ("other", "for something"),
    })
}

/// The object of a time-critical thread's wait for another thread, by [`tek_abi::Inversion::kind`].
/// For `condition` it is the mutex.
pub fn inversion(kind: u32) -> &'static str {
    match u8::try_from(kind & !HELD_UP_DEADLOCK) {
        Ok(WAITS_MUTEX) => "mutex",
        Ok(WAITS_RWLOCK) => "rwlock",
        Ok(WAITS_COND) => "condition",
        Ok(WAITS_JOIN) => "join",
        _ => "other",
    }
}

/// A zone of a stack.
pub fn zone(zone: Zone) -> &'static str {
    match zone {
        Zone::Low => "low",
        Zone::Normal => "normal",
        Zone::High => "high",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use tek_abi::{GROUP_BACKGROUND, GROUP_NORMAL, GROUP_SERVICE, GROUP_URGENT, WAITS_OTHER};

    #[test]
    fn every_group_has_the_name_that_rules_give_it() {
        let groups = [GROUP_NORMAL, GROUP_URGENT, GROUP_SERVICE, GROUP_BACKGROUND];
        assert_eq!(groups.map(group), ["normal", "urgent", "service", "background"]);
        assert_eq!(group(200), "200");
    }

    #[test]
    fn every_policy_of_the_kernel_has_a_name() {
        assert_eq!(policy(libc::SCHED_RR as u32), Some("rr"));
        assert_eq!(policy(libc::SCHED_DEADLINE as u32), Some("deadline"));
        assert_eq!(policy(84), None);
    }

    #[test]
    fn what_is_waited_for_has_a_word_also_one_that_is_not_known() {
        assert_eq!(waits(WAITS_NO), None);
        let words: HashSet<_> = (WAITS_OTHER..=WAITS_PAUSE).filter_map(waits).collect();
        assert_eq!(words.len(), usize::from(WAITS_PAUSE));
        assert_eq!(waits(WAITS_OTHER), waits(255));
    }

    #[test]
    fn every_reason_has_a_name() {
        assert_eq!(reasons(0x3f), ["policy", "enter", "timed", "rule", "follow", "lift"]);
        assert!(reasons(0).is_empty());
    }
}
