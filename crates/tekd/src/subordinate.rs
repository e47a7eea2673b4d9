// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users that own other user ids: subuid(5). A user can take on each of its subordinate ids, so all
//! of them count as one user when a resource is shared among users.
use nix::unistd::User;
use std::fs::File;
use std::io::Read;
use std::ops::Range;

const FILE: &str = "/etc/subuid";
/// The rest of a longer file is not read.
const MOST_BYTES: u64 = 1 << 20;

/// The ranges of subordinate ids, by their beginnings.
#[derive(Default)]
pub struct Subordinates(Vec<(Range<u32>, u32)>);

impl Subordinates {
    /// Reads the ranges of /etc/subuid; without that file there are none.
    pub fn read() -> Self {
        let mut text = Vec::new();
        let read = File::open(FILE).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text));
        let text = if read.is_ok() { String::from_utf8_lossy(&text) } else { "".into() };
        Self::parse(&text, |name| Some(User::from_name(name).ok()??.uid.as_raw()))
    }

    fn parse(text: &str, user_id: impl Fn(&str) -> Option<u32>) -> Self {
        let range = |line: &str| {
            let mut fields = line.trim().splitn(3, ':');
            let owner = fields.next()?;
            let owner = owner.parse().ok().or_else(|| user_id(owner))?;
            let first: u32 = fields.next()?.parse().ok()?;
            let count: u32 = fields.next()?.parse().ok()?;
            // A container that root starts is not root: its ids are one user by themselves.
            let owner = if owner == 0 { first } else { owner };
            Some((first..first.checked_add(count)?, owner))
        };
        let mut ranges: Vec<_> = text.lines().filter_map(range).collect();
        tek_sort::by_key(&mut ranges, |(range, _)| range.start);
        Self(ranges)
    }

    /// The user that a user id belongs to: itself, if it is not subordinate.
    pub fn owner_of(&self, uid: u32) -> u32 {
        let before = self.0.partition_point(|(range, _)| range.start <= uid);
        let last = before.checked_sub(1).and_then(|n| self.0.get(n));
        last.filter(|(range, _)| range.contains(&uid)).map_or(uid, |(_, owner)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subordinate_id_belongs_to_its_owner_and_other_ids_to_themselves() {
        let text = "anna:100000:65536\n# none\n\n1001:165536:10\nnobody-has-it:5:5\nanna:7:x\n\
                    anna:4294967295:2\nroot:200000:10\n0:300000:10\n";
        let user_id = |name: &str| match name {
            "anna" => Some(1000),
            "root" => Some(0),
            _ => None,
        };
        let ids = Subordinates::parse(text, user_id);
        for (uid, owner) in [
            (0, 0),
            (5, 5),
            (1000, 1000),
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 1001),
            (165_546, 165_546),
            (u32::MAX, u32::MAX),
            (200_000, 200_000),
            (200_009, 200_000),
            (300_009, 300_000),
        ] {
            assert_eq!(ids.owner_of(uid), owner, "{uid}");
        }
        assert_eq!(Subordinates::default().owner_of(100_000), 100_000);
    }
}
