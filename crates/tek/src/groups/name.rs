// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name of a group on the command line.
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tek_policy::Group;

/// Parses a name, and lists the valid ones.
pub fn parser() -> impl TypedValueParser<Value = Group> {
    // In the order of their weights.
    let names = [Group::Urgent, Group::Normal, Group::Service, Group::Background];
    PossibleValuesParser::new(names.map(Group::name)).try_map(|name| name.parse::<Group>())
}

/// `GROUP_*`.
pub fn number(group: Group) -> u32 {
    // They are numbered in the order in which they are declared.
    group as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_the_number_that_libtek_and_tekd_give_it() {
        for (index, group) in Group::ALL.into_iter().enumerate() {
            assert_eq!(number(group) as usize, index);
        }
        assert_eq!(number(Group::Background), u32::from(tek_abi::GROUP_BACKGROUND));
    }
}
