// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C headers and this crate define the same numbers and layouts.
use regex::Regex;
use std::collections::BTreeMap;
use tek_abi::*;

const HEADER: &str = concat!(
    include_str!("../../../abi/tek_abi.h"),
    include_str!("../../../abi/tek_event.h"),
    include_str!("../../../abi/tek_inversions.h"),
    include_str!("../../../abi/tek_message.h"),
    include_str!("../../../abi/tek_record.h"),
    include_str!("../../../abi/tek_table.h"),
    include_str!("../../../abi/tek_types.h"),
    include_str!("../../../abi/tek_trace.h"),
    include_str!("../../../abi/tek_profile.h")
);

macro_rules! constants {
    ($($name:ident),* $(,)?) => { [$((concat!("TEK_", stringify!($name)), $name as i128)),*] };
}

fn rust_constants() -> BTreeMap<&'static str, i128> {
    BTreeMap::from(constants![
        ABI_VERSION,
        SCHED_POLICY,
        GROUP_NORMAL,
        GROUP_URGENT,
        GROUP_SERVICE,
        GROUP_BACKGROUND,
        REGION_NONE,
        REGION_FAST,
        PLACE_GROUP_SHIFT,
        PLACE_GROUP_MASK,
        PLACE_REGION_SHIFT,
        PLACE_REGION_MASK,
        PLACE_ZONE_SHIFT,
        PLACE_ZONE_MASK,
        FLAG_MARKED,
        FLAG_NAMED,
        FLAG_MAIN,
        FLAG_ADOPTED,
        FLAG_OVERRAN,
        FLAG_UNWATCHED,
        FLAG_ASKED,
        FLAG_USER,
        BASE_RESET_ON_FORK,
        BASE_SAVED,
        WHY_POLICY,
        WHY_ENTER,
        WHY_TIMED,
        WHY_RULE,
        WHY_FOLLOW,
        WHY_LIFT,
        WAITS_NO,
        WAITS_OTHER,
        WAITS_MUTEX,
        WAITS_COND,
        WAITS_RWLOCK,
        WAITS_BARRIER,
        WAITS_SEMAPHORE,
        WAITS_ONCE,
        WAITS_JOIN,
        WAITS_FILE,
        WAITS_SLEEP,
        WAITS_SIGNAL,
        WAITS_PAUSE,
        ROLE_BYTES,
        MODULES_OFFSET,
        MAX_MODULES,
        INVERSIONS_OFFSET,
        MAX_INVERSIONS,
        HELD_UP_DEADLOCK,
        HELD_UP_OFFSET,
        MAX_HELD_UP,
        WORKERS_OFFSET,
        MAX_WORKERS,
        IMAGE_SHIFT,
        TABLE_MAGIC,
        CHUNK_SLOTS,
        MAX_CHUNKS,
        MAX_SLOTS,
        TABLE_HEADER_BYTES,
        TABLE_CHUNK_BYTES,
        CHUNK_SIDE_OFFSET,
        EVENT_MAGIC,
        EVENT_REFUSED,
        EVENT_OVERRAN,
        EVENT_NOT_COVERED,
        EVENT_SUMMARY,
        EVENT_BAD_OPTION,
        EVENT_STACK_HIGH,
        EVENT_OVERFLOW,
        EVENT_FRAME,
        EVENT_NOT_PLACED,
        EVENT_LOCKS,
        EVENT_LOCK,
        EVENT_INVERSIONS,
        EVENT_INVERSION,
        EVENT_HOLDER,
        EVENT_INVERSION_PLACE,
        AT_CALL,
        AT_RELEASE,
        AT_OBJECT,
        ZONE_NONE,
        ZONE_LOW,
        ZONE_NORMAL,
        ZONE_HIGH,
        STACK_TUNED,
        STACK_EXPLICIT,
        STACK_OWN,
        STACK_EXACT,
        STACK_UNCLEAN,
        STACK_GROWN,
        STACK_OVERFLOWED,
        LABEL_NONE,
        LABEL_NAME,
        LABEL_ROLE,
        STACK_MODE_OFF,
        STACK_MODE_REPORT,
        STACK_MODE_AUTO,
        STACK_MODE_TIGHT,
        KINDS_OFFSET,
        MAX_KINDS,
        SOCKET_VERSION,
        REQUEST_MAGIC,
        REPLY_MAGIC,
        ASK_HELLO,
        ASK_ENTER,
        ASK_LEAVE,
        ASK_GROUP,
        ASK_STATUS,
        ASK_EXPLAIN,
        ASK_CRITICAL,
        ASK_NORMAL,
        ASK_PROCESS,
        ASK_LIFT,
        ASK_THEN,
        TELL_LEFT,
        TELL_REFUSED,
        GRANT_SWITCH,
        GRANT_LIMIT,
        TRACE_VERSION,
        TRACE_MAGIC,
        TRACE_BLOCK_MAGIC,
        TRACE_HEADER_BYTES,
        TRACE_BLOCK_BYTES,
        TRACE_NO_WORKER,
        TRACE_SWITCH,
        TRACE_READY,
        TRACE_NAME,
        TRACE_TEXT,
        TRACE_IDLE,
        TRACE_YIELDED,
        TRACE_PREEMPTED,
        TRACE_ENDED,
        TRACE_HELD_UP,
        TRACE_WAITS,
        TRACE_TEXT_BYTES,
        PROFILE_VERSION,
        PROFILE_MAGIC,
        PROFILE_BLOCK_MAGIC,
        PROFILE_MODULES_OFFSET,
        PROFILE_MAX_MODULES,
        PROFILE_THERE_OFFSET,
        PROFILE_THREADS_OFFSET,
        PROFILE_MAX_THREADS,
        PROFILE_THREAD_BYTES,
        PROFILE_OBJECTS_OFFSET,
        PROFILE_OBJECTS,
        PROFILE_BLOCKS_OFFSET,
        PROFILE_BLOCK_BYTES,
        PROFILE_MAX_BLOCKS,
        PROFILE_CLOCK_MONOTONIC,
        PROFILE_CLOCK_COUNTER,
        PROFILE_LONG_NS,
        PROFILE_SYNC,
        PROFILE_FILE,
        PROFILE_ALLOC,
        PROFILE_IDLE,
        PROFILE_PARTS,
        PROFILE_MUTEX,
        PROFILE_SPIN,
        PROFILE_READ,
        PROFILE_WRITE,
        PROFILE_COND,
        PROFILE_BARRIER,
        PROFILE_SEMAPHORE,
        PROFILE_JOIN,
        PROFILE_SLEEP,
    ])
}

/// A number, a name defined before, or a product of them in parentheses.
fn evaluate(expression: &str, known: &BTreeMap<String, i128>) -> i128 {
    let expression = expression.trim().trim_start_matches('(').trim_end_matches(')');
    expression
        .split('*')
        .map(|factor| {
            let factor = factor.trim();
            if let Some(&value) = known.get(factor) {
                return value;
            }
            let digits = factor.trim_end_matches(['u', 'l', 'U', 'L']);
            match digits.strip_prefix("0x") {
                Some(hex) => i128::from_str_radix(hex, 16),
                None => digits.parse(),
            }
            .unwrap_or_else(|_| panic!("cannot read `{factor}` in the headers: teach this test"))
        })
        .product()
}

#[test]
fn every_constant_has_the_same_value_in_c_and_rust() {
    let define = Regex::new(r#"(?m)^#define[ \t]+(TEK_\w+)[ \t]+([^/\n"]+)"#).unwrap();
    let mut in_c = BTreeMap::new();
    let header = HEADER.replace("\\\n", " ");
    for found in define.captures_iter(&header) {
        let value = evaluate(&found[2], &in_c);
        in_c.insert(found[1].to_owned(), value);
    }
    let in_rust: BTreeMap<_, _> =
        rust_constants().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(in_c, in_rust);
}

/// The structs of both sides.
const LAYOUTS: [Layout; 19] = [
    Record::LAYOUT,
    Side::LAYOUT,
    Module::LAYOUT,
    Kind::LAYOUT,
    Inversion::LAYOUT,
    HeldUp::LAYOUT,
    WorkerPlace::LAYOUT,
    TableHeader::LAYOUT,
    Event::LAYOUT,
    Request::LAYOUT,
    Reply::LAYOUT,
    TraceHeader::LAYOUT,
    TraceBlock::LAYOUT,
    TraceRecord::LAYOUT,
    ProfileHeader::LAYOUT,
    ProfileThread::LAYOUT,
    ProfileObject::LAYOUT,
    ProfileBlock::LAYOUT,
    ProfileWait::LAYOUT,
];

#[test]
fn every_struct_lies_in_memory_as_c_asserts() {
    let at = Regex::new(r"(?m)^TEK_ABI_AT\((\w+), (\w+), (\d+)\);").unwrap();
    let size = Regex::new(r"(?m)^TEK_ABI_ASSERT\(sizeof\(struct (\w+)\) == (\d+)\);").unwrap();
    let structs = BTreeMap::from(LAYOUTS.map(|(name, size, fields)| (name, (size, fields))));
    let sizes: BTreeMap<_, usize> = size
        .captures_iter(HEADER)
        .map(|c| (c.extract::<2>().1[0], c[2].parse().unwrap()))
        .collect();
    assert_eq!(sizes, structs.iter().map(|(&name, &(size, _))| (name, size)).collect());

    let mut asserted = 0;
    for found in at.captures_iter(HEADER) {
        let (_, fields) = structs[&found[1]];
        let offset = fields.iter().find(|(name, _)| *name == &found[2]).map(|field| field.1);
        assert_eq!(offset, Some(found[3].parse().unwrap()), "{}.{}", &found[1], &found[2]);
        asserted += 1;
    }
    assert!(HEADER.contains(&format!("TEK_SOCKET_PATH {SOCKET_PATH:?}")));
    let lines = HEADER.lines().filter(|line| line.starts_with("TEK_ABI_A")).count();
    assert_eq!(asserted + sizes.len(), lines, "an assertion of the headers was not understood");
}

#[test]
fn every_field_has_the_same_place_in_c_and_rust() {
    let body = Regex::new(r"(?s)struct (tek_\w+) \{(.*?)\n\};").unwrap();
    let comment = Regex::new(r"(?s)/\*.*?\*/").unwrap();
    let field = Regex::new(r"tek_[us](\d+) (\w+)(?:\[(\d+)\])?;").unwrap();
    for (name, size, fields) in LAYOUTS {
        let found = body.captures_iter(HEADER).find(|c| &c[1] == name).expect(name);
        let mut offset = 0usize;
        let mut in_c = Vec::new();
        for found in field.captures_iter(&comment.replace_all(&found[2], "")) {
            let bytes = found[1].parse::<usize>().unwrap() / 8;
            offset = offset.next_multiple_of(bytes);
            in_c.push((found[2].to_owned(), offset));
            offset += bytes * found.get(3).map_or(1, |n| n.as_str().parse().unwrap());
        }
        let in_rust: Vec<_> = fields.iter().map(|&(name, at)| (name.to_owned(), at)).collect();
        assert_eq!((in_c, offset), (in_rust, size), "{name}");
    }
}
