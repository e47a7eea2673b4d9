// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for the contents of a guest.
use crate::manifest::{Contents, Manifest};
use anyhow::{bail, Context};
use std::env;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What lies in a guest.
#[derive(clap::Args)]
#[command(next_help_heading = "What is in the guest")]
pub struct What {
    /// A file or directory of this machine for the guest, at the same path or at another one. The
    /// libraries that programs need come with them. Can be given several times
    #[arg(long, value_name = "PATH[:PLACE]")]
    add: Vec<String>,
    /// A file that names sets of files, such as lab/manifest.toml
    #[arg(long, value_name = "FILE", requires = "with")]
    manifest: Option<PathBuf>,
    /// Take that set of the manifest into the guest. Can be given several times
    #[arg(long, value_name = "SET", requires = "manifest")]
    with: Vec<String>,
    /// Directory with bin/tek and lib/libtek.so for the guest; without it those of this tek
    #[arg(long, value_name = "DIR")]
    tek: Option<PathBuf>,
}

impl What {
    /// The contents by these options, for a guest of that architecture.
    pub fn contents(
        &self,
        architecture: &str,
        sysroot: Option<PathBuf>,
    ) -> anyhow::Result<Contents> {
        let mut added = Vec::new();
        if let Some(manifest) = &self.manifest {
            added.extend(Manifest::read(manifest)?.select(&self.with)?);
        }
        for add in &self.add {
            added.push(place(add)?);
        }
        Ok(Contents { tek: self.tek(architecture)?, sysroot, added })
    }

    fn tek(&self, architecture: &str) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.tek {
            return Ok(directory.clone());
        }
        let own = env::current_exe().context("cannot find out where tek itself is")?;
        let top = own.ancestors().nth(2).unwrap_or(Path::new("/"));
        Ok(match architecture {
            "arm64" => top.join("aarch64"),
            "armhf" => top.join("armhf"),
            _ => top.to_owned(),
        })
    }
}

/// The two paths of an `--add`: from where to where.
fn place(add: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (from, to) = match add.split_once(':') {
        Some((from, to)) => (from, PathBuf::from(to)),
        None => (add, std::path::absolute(add)?),
    };
    if !to.is_absolute() {
        bail!("--add {add}: the place in the guest, {}, must begin with /", to.display());
    }
    let from = std::path::absolute(from)?;
    from.metadata().with_context(|| format!("--add {add}: cannot read {}", from.display()))?;
    Ok((from, to))
}

/// There is no such program on this machine, and the guest's working directory is empty.
#[derive(Debug, thiserror::Error)]
#[error("there is no program {0} on this machine; write a path of the guest with its first /")]
pub struct NoProgram(String);

/// Refuses a command if its program is a relative path and no such file exists on this machine.
pub fn check_named(command: &[String]) -> anyhow::Result<()> {
    match command.first() {
        Some(program) if is_from_here(program) && !Path::new(program).is_file() => {
            Err(NoProgram(program.clone()).into())
        }
        _ => Ok(()),
    }
}

fn is_from_here(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

/// The files of this machine that a command names and that go into the guest: its program, and each
/// word that begins with ./ or ../ and names a file. In the command they become absolute paths,
/// because these are their paths in the guest.
pub fn own_files(
    command: &mut [String],
    foreign: bool,
    is_there: impl Fn(&str) -> anyhow::Result<bool>,
) -> anyhow::Result<Vec<PathBuf>> {
    let Some((program, words)) = command.split_first_mut() else { return Ok(Vec::new()) };
    let relative = is_from_here(program);
    let mut files: Vec<PathBuf> = own_program(program, foreign, &is_there)?.into_iter().collect();
    if files.is_empty() && relative {
        return Err(NoProgram(program.clone()).into());
    }
    for word in words.iter_mut().filter(|word| word.starts_with("./") || word.starts_with("../")) {
        let path = std::path::absolute(&*word)?;
        if path.is_file() {
            *word = path.to_str().context("a path is no UTF-8; rename it")?.to_owned();
            files.push(path);
        }
    }
    Ok(files)
}

/// The file of this machine that a command's first word names, if it goes into the guest: one with
/// a slash, or one that the guest does not have. It becomes an absolute path. A guest of another
/// architecture keeps its own file at that path.
fn own_program(
    program: &mut String,
    foreign: bool,
    is_there: &impl Fn(&str) -> anyhow::Result<bool>,
) -> anyhow::Result<Option<PathBuf>> {
    let path = match program.contains('/') {
        true if foreign && is_there(program)? => None,
        true => Some(std::path::absolute(&*program)?).filter(|path| path.is_file()),
        false if foreign || is_there(program)? => None,
        false => in_path(program),
    };
    if let Some(path) = &path {
        *program = path.to_str().context("the program's path is no UTF-8; rename it")?.to_owned();
    }
    Ok(path)
}

/// Refuses a program for another architecture than the guest's, because it could only fail there.
pub fn check_architecture(program: &Path, architecture: &str) -> anyhow::Result<()> {
    let about = || format!("cannot read {}", program.display());
    let mut header = Vec::new();
    File::open(program)
        .with_context(about)?
        .take(20)
        .read_to_end(&mut header)
        .with_context(about)?;
    let (is, runs) = match header.as_slice() {
        // The ELF header's field for the processor, least significant byte first.
        [0x7f, b'E', b'L', b'F', _, 1, .., low, high] if header.len() == 20 => {
            match u16::from_le_bytes([*low, *high]) {
                62 => ("64-bit x86", architecture == "amd64"),
                3 => ("32-bit x86", architecture == "amd64"),
                40 => ("32-bit ARM", architecture == "armhf"),
                183 => ("64-bit ARM", architecture == "arm64"),
                _ => ("another processor", false),
            }
        }
        // A script, or a format that the guest may know.
        _ => return Ok(()),
    };
    if !runs {
        bail!(
            "{} is a program for {is}, and this guest is {architecture}: name one that was built \
             for it, or one of the guest's own",
            program.display()
        );
    }
    Ok(())
}

fn in_path(program: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let path = env::var_os("PATH")?;
    let mut places = env::split_paths(&path).filter(|directory| directory.is_absolute());
    places.find_map(|directory| Some(directory.join(program)).filter(runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_for(foreign: bool, program: &str, guest_has_it: bool) -> (String, Option<PathBuf>) {
        let mut program = program.to_owned();
        let path = own_program(&mut program, foreign, &|_: &str| Ok(guest_has_it)).unwrap();
        (program, path)
    }

    fn found(program: &str, guest_has_it: bool) -> (String, Option<PathBuf>) {
        found_for(false, program, guest_has_it)
    }

    #[test]
    fn a_guest_of_another_architecture_keeps_its_own_programs() {
        assert_eq!(found_for(true, "/bin/sh", true), ("/bin/sh".to_owned(), None));
        assert_eq!(found_for(true, "sh", false), ("sh".to_owned(), None));
        assert_eq!(found_for(true, "/bin/sh", false).1, Some("/bin/sh".into()));
    }

    #[test]
    fn a_program_for_another_architecture_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program");
        let check = |machine: u8, architecture| {
            let mut header = b"\x7fELF\x01\x01\x01".to_vec();
            header.resize(18, 0);
            header.extend([machine, 0, 1, 0]);
            std::fs::write(&file, header).unwrap();
            check_architecture(&file, architecture).map_err(|error| error.to_string())
        };
        assert_eq!(check(40, "armhf"), Ok(()));
        assert_eq!(check(183, "arm64"), Ok(()));
        assert_eq!(check(62, "amd64"), Ok(()));
        let error = check(62, "armhf").unwrap_err();
        assert!(error.contains("is a program for 64-bit x86, and this guest is armhf"), "{error}");
        assert!(check(40, "amd64").is_err());
        for text in ["", "#!/bin/sh\n", "\x7fELF"] {
            std::fs::write(&file, text).unwrap();
            assert!(check_architecture(&file, "armhf").is_ok());
        }
    }

    #[test]
    fn a_program_with_a_slash_is_called_by_its_whole_path() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program");
        std::fs::write(&file, "").unwrap();
        let name = format!("{}/./program", directory.path().display());
        assert_eq!(found(&name, true), (file.to_str().unwrap().to_owned(), Some(file)));
    }

    #[test]
    fn a_program_that_only_the_guest_has_is_left_alone() {
        for name in ["/no/such/program", "/tmp"] {
            assert_eq!(found(name, true), (name.to_owned(), None));
        }
        assert_eq!(found("sh", true), ("sh".to_owned(), None));
    }

    #[test]
    fn a_program_that_the_guest_does_not_have_is_found_in_path() {
        let (program, path) = found("sh", false);
        assert!(program.ends_with("/sh") && path.is_some_and(|path| path.is_absolute()));
        assert_eq!(found("no-such-program", false), ("no-such-program".to_owned(), None));
    }

    #[test]
    fn words_that_name_files_from_here_come_along_and_become_whole_paths() {
        let mut command = ["tek", "run", "--", "./Cargo.toml", "./nothing", "Cargo.toml", "../"]
            .map(str::to_owned);
        let files = own_files(&mut command, false, |_| Ok(true)).unwrap();
        let whole = std::path::absolute("Cargo.toml").unwrap();
        assert_eq!(files, std::slice::from_ref(&whole));
        assert_eq!(command[3], whole.to_str().unwrap());
        assert_eq!(command[4..], ["./nothing", "Cargo.toml", "../"]);
    }

    #[test]
    fn a_missing_program_is_reported_before_anything_is_booted() {
        let of = |program: &str| own_files(&mut [program.to_owned()], false, |_| Ok(false));
        for program in ["./no-such-program", "no/such/program"] {
            assert!(of(program).unwrap_err().is::<NoProgram>());
        }
        for program in ["no-such-program", "/no/such/program"] {
            assert!(of(program).unwrap().is_empty());
        }
        assert!(own_files(&mut [], false, |_| Ok(false)).unwrap().is_empty());
    }

    #[test]
    fn what_is_added_lies_at_the_same_path_or_at_the_given_one() {
        let own = PathBuf::from("/bin/sh");
        assert_eq!(place("/bin/sh").unwrap(), (own.clone(), own.clone()));
        assert_eq!(place("/bin/sh:/opt/sh").unwrap(), (own, "/opt/sh".into()));
        let here = place("Cargo.toml").unwrap();
        assert!(here.0.is_absolute() && here.0 == here.1);
        let error = |add| place(add).unwrap_err().to_string();
        assert!(error("/bin/sh:opt").ends_with("opt, must begin with /"));
        assert!(error("/no/such/file").contains("cannot read /no/such/file"));
    }
}
