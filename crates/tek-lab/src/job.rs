// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command to run in a guest.
use crate::frame::MOST_BYTES;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// One command in a guest. In JSON, the format of `tek lab run --jobs`, only name and command are
/// required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Names its results: letters, digits and `._-`, not beginning with a dot; at most 100 bytes.
    pub name: String,
    /// The program, found in the guest's PATH, and its arguments.
    pub command: Vec<String>,
    /// Variables beside those of the guest.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Directory in the guest; `/tmp` without it.
    #[serde(default)]
    pub directory: Option<String>,
    /// Limit in seconds, after which it is ended and has failed; 0: the limit of the run.
    #[serde(default)]
    pub limit: u64,
    /// Needs a guest in which nothing has run yet.
    #[serde(default)]
    pub fresh: bool,
    /// Whether to bring back the files that it writes into `$OUT`.
    #[serde(default)]
    pub files: bool,
}

/// Most bytes of a name.
const MOST_OF_NAME: usize = 100;

/// Why a job cannot be run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Its name is invalid.
    #[error(
        "{0:?} is no name for a job: take letters, digits and ._-, not beginning with a dot, \
         {MOST_OF_NAME} at most, and none like console-1.log, where a guest's console is kept"
    )]
    Name(String),
    /// Two have the same name.
    #[error("two jobs are named {0}: their results would be one")]
    Twice(String),
    /// It has no command.
    #[error("job {0} has no command")]
    NoCommand(String),
    /// An argument or variable that no program can receive.
    #[error("job {0} has a zero byte in its command, directory or environment")]
    Zero(String),
    /// An invalid name of a variable.
    #[error("job {0}: {1:?} is no name of a variable")]
    Variable(String, String),
    /// It does not fit into a frame.
    #[error(
        "job {0} is too long: {1} bytes, {MOST_BYTES} at most; put what it needs into a file, and \
         that into the guest"
    )]
    Long(String, usize),
}

impl Job {
    /// A command that has all of the defaults.
    pub fn new(name: &str, command: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            command,
            environment: BTreeMap::new(),
            directory: None,
            limit: 0,
            fresh: false,
            files: false,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let name = &self.name;
        if !(1..=MOST_OF_NAME).contains(&name.len())
            || name.starts_with('.')
            || (name.starts_with("console-") && name.ends_with(".log"))
            || !name.bytes().all(fits)
        {
            return Err(Error::Name(name.clone()));
        }
        if self.command.first().is_none_or(String::is_empty) {
            return Err(Error::NoCommand(name.clone()));
        }
        let variable = |key: &&String| key.is_empty() || key.contains('=');
        if let Some(key) = self.environment.keys().find(variable) {
            return Err(Error::Variable(name.clone(), key.clone()));
        }
        let texts = self.command.iter().chain(&self.directory);
        let mut texts = texts.chain(self.environment.iter().flat_map(|(key, value)| [key, value]));
        if texts.any(|text| text.contains('\0')) {
            return Err(Error::Zero(name.clone()));
        }
        let length = serde_json::to_vec(self).map_or(0, |bytes| bytes.len());
        match length {
            0..=MOST_BYTES => Ok(()),
            _ => Err(Error::Long(name.clone(), length)),
        }
    }
}

/// Checks that all of them can be run, and have distinct names.
pub fn check(jobs: &[Job]) -> Result<(), Error> {
    let mut names = HashSet::new();
    for job in jobs {
        job.check()?;
        if !names.insert(&job.name) {
            return Err(Error::Twice(job.name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(name: &str) -> Job {
        Job::new(name, vec!["true".into()])
    }

    #[test]
    fn a_name_can_be_that_of_a_directory_and_nothing_else() {
        for name in ["a", "rt.c-test_8", "-", "_.", &"x".repeat(100)] {
            assert_eq!(job(name).check(), Ok(()), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "console-1.log",
            ".a",
            "a/b",
            "a b",
            "ä",
            "a\n",
            "a\0",
            &"x".repeat(101),
        ] {
            assert_eq!(job(name).check(), Err(Error::Name(name.into())), "{name}");
        }
    }

    #[test]
    fn two_jobs_of_one_name_are_refused() {
        assert_eq!(check(&[job("a"), job("b")]), Ok(()));
        assert_eq!(check(&[job("a"), job("b"), job("a")]), Err(Error::Twice("a".into())));
    }

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        let no = |change: fn(&mut Job)| {
            let mut job = job("a");
            change(&mut job);
            job.check().unwrap_err()
        };
        assert_eq!(no(|job| job.command.clear()), Error::NoCommand("a".into()));
        assert_eq!(no(|job| job.command[0].clear()), Error::NoCommand("a".into()));
        assert_eq!(no(|job| job.command.push("\0".into())), Error::Zero("a".into()));
        assert_eq!(no(|job| job.directory = Some("\0".into())), Error::Zero("a".into()));
        let zero = |job: &mut Job| drop(job.environment.insert("A".into(), "\0".into()));
        assert_eq!(no(zero), Error::Zero("a".into()));
        let odd = |job: &mut Job| drop(job.environment.insert("A=B".into(), "".into()));
        assert_eq!(no(odd), Error::Variable("a".into(), "A=B".into()));
        let long = |job: &mut Job| job.command.push("x".repeat(MOST_BYTES));
        assert!(matches!(no(long), Error::Long(_, 65537..)));
    }

    #[test]
    fn json_needs_no_more_than_name_and_command() {
        let read: Job = serde_json::from_str(r#"{"name": "a", "command": ["true"]}"#).unwrap();
        assert_eq!(read, job("a"));
        let odd = serde_json::from_str::<Job>(r#"{"name": "a", "command": [], "cpus": 2}"#);
        assert!(odd.unwrap_err().to_string().contains("unknown field `cpus`"));
    }

    proptest! {
        #[test]
        fn a_job_that_is_accepted_fits_into_a_frame(
            name in "[a-z.]{0,3}",
            words in proptest::collection::vec(("\\PC{0,4}", 0..20_000_usize), 0..5),
        ) {
            let command = words.into_iter().map(|(word, times)| word.repeat(times)).collect();
            let job = Job::new(&name, command);
            if job.check().is_ok() {
                let bytes = crate::protocol::Frame::Run(Box::new(job)).to_bytes();
                prop_assert!(bytes.len() <= MOST_BYTES + 5);
            }
        }
    }
}
