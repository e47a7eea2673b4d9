// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of jobs, kept in a directory.
use crate::files::{self, Spool};
use crate::Job;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Ends a file if more output came than is kept.
const LEFT_OUT: &str = "\n[tek: more was written, and left out]\n";

/// A directory with the output of jobs: JOB/stdout, JOB/stderr, JOB/files, console-BOOT.log.
pub struct Results {
    directory: PathBuf,
    most: u64,
    console: Option<Stored>,
    job: Option<OfJob>,
}

/// The output of the job that runs.
struct OfJob {
    output: Stored,
    error: Stored,
    files: Spool,
    lost: Option<files::Error>,
}

impl Results {
    /// In an empty directory; at most so many bytes of each file.
    pub fn new(directory: &Path, most: u64) -> Self {
        Self { directory: directory.to_owned(), most, console: None, job: None }
    }

    /// Begins the next boot's console.
    pub fn booting(&mut self, boot: u32) -> io::Result<()> {
        let path = self.directory.join(format!("console-{boot}.log"));
        self.console = Some(Stored::new(path, self.most)?);
        Ok(())
    }

    /// Takes output of the guest's kernel.
    pub fn console(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.console.as_mut().map_or(Ok(()), |console| console.push(bytes))
    }

    /// Takes standard output of a job.
    pub fn output(&mut self, job: &Job, bytes: &[u8]) -> io::Result<()> {
        self.of(job)?.output.push(bytes)
    }

    /// Takes standard error of a job.
    pub fn error(&mut self, job: &Job, bytes: &[u8]) -> io::Result<()> {
        self.of(job)?.error.push(bytes)
    }

    /// Takes a piece of the archive of a job's files.
    pub fn files(&mut self, job: &Job, bytes: &[u8]) -> io::Result<()> {
        let job = self.of(job)?;
        if job.lost.is_none() {
            job.lost = job.files.push(bytes).err();
        }
        Ok(())
    }

    /// Ends the results of a job. Returns the files that were left out, because they are neither
    /// regular files nor directories; `Err`: why some are missing.
    pub fn ended(&mut self, job: &Job) -> io::Result<Result<Vec<PathBuf>, files::Error>> {
        self.of(job)?; // a job that wrote nothing has its empty files
        let Some(of_job) = self.job.take() else { return Ok(Ok(Vec::new())) };
        Ok(match of_job.lost {
            Some(lost) => Err(lost),
            None => of_job.files.unpack(&self.directory.join(&job.name).join("files")),
        })
    }

    fn of(&mut self, job: &Job) -> io::Result<&mut OfJob> {
        let (directory, most) = (self.directory.join(&job.name), self.most);
        Ok(match &mut self.job {
            Some(job) => job,
            none => {
                fs::create_dir_all(&directory).map_err(|error| about(error, &directory))?;
                none.insert(OfJob {
                    output: Stored::new(directory.join("stdout"), most)?,
                    error: Stored::new(directory.join("stderr"), most)?,
                    files: Spool::new(most),
                    lost: None,
                })
            }
        })
    }
}

/// A file that does not become larger than allowed.
struct Stored {
    path: PathBuf,
    file: File,
    room: u64,
    is_cut: bool,
}

impl Stored {
    fn new(path: PathBuf, room: u64) -> io::Result<Self> {
        let file = File::create_new(&path).map_err(|error| about(error, &path))?;
        Ok(Self { path, file, room, is_cut: false })
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_cut {
            return Ok(());
        }
        let fits = bytes.len().min(usize::try_from(self.room).unwrap_or(usize::MAX));
        self.room -= fits as u64;
        self.is_cut = fits < bytes.len();
        let end = if self.is_cut { LEFT_OUT } else { "" };
        self.file
            .write_all(&bytes[..fits])
            .and_then(|()| self.file.write_all(end.as_bytes()))
            .map_err(|error| about(error, &self.path))
    }
}

/// The error with the file's name; a full disk is reported as such.
fn about(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Job {
        Job::new(name, vec!["true".into()])
    }

    #[test]
    fn each_job_has_its_output_and_each_boot_its_console() {
        let directory = tempfile::tempdir().unwrap();
        let read = |path| fs::read_to_string(directory.path().join(path)).unwrap();
        let mut results = Results::new(directory.path(), 100);
        results.booting(1).unwrap();
        results.console(b"Linux\n").unwrap();
        results.output(&job("a"), b"out").unwrap();
        results.error(&job("a"), b"err").unwrap();
        results.output(&job("a"), b"put").unwrap();
        results.ended(&job("a")).unwrap().unwrap();
        results.ended(&job("silent")).unwrap().unwrap();
        results.booting(2).unwrap();
        assert_eq!([read("a/stdout"), read("a/stderr")], ["output", "err"]);
        assert_eq!([read("silent/stdout"), read("silent/stderr")], ["", ""]);
        assert_eq!([read("console-1.log"), read("console-2.log")], ["Linux\n", ""]);
        assert!(!directory.path().join("a/files").exists());
    }

    #[test]
    fn output_beyond_the_limit_is_left_out_and_that_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let mut results = Results::new(directory.path(), 5);
        for _ in 0..3 {
            results.output(&job("a"), b"abc").unwrap();
        }
        let retained = fs::read_to_string(directory.path().join("a/stdout")).unwrap();
        assert_eq!(retained, format!("abcab{LEFT_OUT}"));
        results.error(&job("a"), b"abcde").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("a/stderr")).unwrap(), "abcde");
    }
}
