// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line that /proc/PID/stat and /proc/PID/task/TID/stat hold of a process or thread.

/// A line of it, taken apart.
pub struct Stat<'a> {
    /// tid, or pid of a process.
    pub tid: &'a str,
    /// Its name.
    pub name: &'a str,
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    /// Takes a line apart; `None` for what is no such line.
    pub fn parse(line: &'a str) -> Option<Self> {
        // A name may hold blanks and parentheses; what follows the last one may not.
        let (head, tail) = line.rsplit_once(')')?;
        let (tid, name) = head.split_once(" (")?;
        Some(Self { tid, name, fields: tail.split_ascii_whitespace().collect() })
    }

    /// A field by its number in proc(5), from 3, the state.
    pub fn field(&self, number: usize) -> Option<&'a str> {
        self.fields.get(number.checked_sub(3)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = Stat::parse("12 (a) b (c) S 1 2").unwrap();
        assert_eq!((stat.tid, stat.name), ("12", "a) b (c"));
        assert_eq!((stat.field(3), stat.field(4)), (Some("S"), Some("1")));
        assert_eq!((stat.field(6), stat.field(2)), (None, None));
        assert!(Stat::parse("").is_none());
    }
}
