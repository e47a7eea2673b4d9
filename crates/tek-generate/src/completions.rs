// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions for bash, zsh and fish. The output of clap_complete knows tek's own words. From the
//! word on where a program begins that tek starts (`tek run`, `tek profile`, ...), the words are
//! the program's.
use crate::create;
use anyhow::Context;
use clap::{Arg, Command};
use clap_complete::Shell;
use std::fs;
use std::path::Path;

const BASH: &str = include_str!("program.bash");
const FISH: &str = include_str!("program.fish");

/// A marker among a command's options with a value: its program needs `--` before it.
const ONLY_AFTER_DASHES: &str = "only-after-dashes";

/// Writes a file for each shell.
pub fn write(tek: &Command, directory: &Path) -> anyhow::Result<()> {
    create(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let text = text(tek, shell);
        let name = match shell {
            Shell::Zsh => "_tek".to_owned(),
            other => format!("tek.{other}"),
        };
        let path = directory.join(name);
        fs::write(&path, text)
            .with_context(|| format!("cannot write the completions {}", path.display()))?;
    }
    Ok(())
}

fn text(all: &Command, shell: Shell) -> String {
    // The generators would offer hidden commands too, so they get a command without them.
    let shown = all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    let mut command = Command::new("tek").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut command, "tek", &mut bytes);
    let own = String::from_utf8(bytes).expect("clap's texts are UTF-8");
    let starters = starters(&command);
    match shell {
        Shell::Bash => bash(&own, &starters),
        Shell::Zsh => zsh(&own, &starters),
        _ => own + &FISH.replace("{CASES}", &cases(&starters, fish_case)),
    }
}

/// A command that starts a program.
struct Starter {
    /// `lab run`.
    path: String,
    /// Its options that take a value from the next word.
    valued: Vec<String>,
    /// The zsh generator's text for the program.
    program: String,
}

fn starters(command: &Command) -> Vec<Starter> {
    let mut found = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        collect(sub, sub.get_name().to_owned(), &mut found);
    }
    found
}

fn collect(command: &Command, path: String, found: &mut Vec<Starter>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        collect(sub, format!("{path} {}", sub.get_name()), found);
    }
    let program = |arg: &&Arg| arg.is_trailing_var_arg_set() || arg.is_last_set();
    let Some(program) = command.get_positionals().find(program) else { return };
    let mut valued: Vec<_> =
        command.get_opts().filter(|arg| takes_next_word(arg)).flat_map(names).collect();
    if program.is_last_set() {
        valued.push(ONLY_AFTER_DASHES.to_owned());
    }
    found.push(Starter { path, valued, program: program.get_id().to_string() });
}

fn takes_next_word(option: &Arg) -> bool {
    let least = option.get_num_args().map_or(1, |range| range.min_values());
    option.get_action().takes_values() && least > 0 && !option.is_require_equals_set()
}

fn names(option: &Arg) -> Vec<String> {
    let long = option.get_long().map(|name| format!("--{name}"));
    let short = option.get_short().map(|name| format!("-{name}"));
    long.into_iter().chain(short).collect()
}

fn cases(starters: &[Starter], case: fn(&Starter) -> String) -> String {
    starters.iter().map(case).collect()
}

fn bash_case(starter: &Starter) -> String {
    format!("        '{}') valued=' {}'; break ;;\n", starter.path, starter.valued.join(" "))
}

fn fish_case(starter: &Starter) -> String {
    format!(
        "            case '{}'\n                set valued -- found {}\n",
        starter.path,
        starter.valued.join(" ")
    )
}

/// The generated function, with another one before it, which is registered in its place.
fn bash(own: &str, starters: &[Starter]) -> String {
    let end = own.find("\nif [[ \"${BASH_VERSINFO[0]}\" -eq 4").unwrap_or(own.len());
    own[..end].to_owned() + &BASH.replace("{CASES}", &cases(starters, bash_case))
}

/// `_normal` completes a command line; after its first word no option is tek's any more.
fn zsh(own: &str, starters: &[Starter]) -> String {
    let mut text = String::new();
    for line in own.lines() {
        let is_program = |starter: &Starter| {
            line.starts_with(&format!("'*::{} -- ", starter.program))
                && line.ends_with(":_default' \\")
        };
        match starters.iter().any(is_program) {
            true => {
                text += "'(-)";
                text += &line[1..line.len() - "_default' \\".len()];
                text += "_normal -p tek' \\";
            }
            false => text += line,
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    fn own_text(shell: Shell) -> String {
        text(&definition(), shell)
    }

    fn all() -> Vec<Starter> {
        starters(&definition())
    }

    #[test]
    fn the_commands_that_start_a_program_are_known_with_their_options_that_have_a_value() {
        let paths: Vec<_> = all().into_iter().map(|starter| starter.path).collect();
        for path in ["run", "suggest", "profile", "lab run", "stack report"] {
            assert!(paths.iter().any(|known| known == path), "{path}: {paths:?}");
        }
        let run = all().into_iter().find(|starter| starter.path == "run").unwrap();
        assert!(run.valued.contains(&"--critical".to_owned()), "{:?}", run.valued);
        assert!(!run.valued.contains(&"--report".to_owned()), "{:?}", run.valued);
        let report = all().into_iter().find(|starter| starter.path == "stack report").unwrap();
        assert!(report.valued.contains(&ONLY_AFTER_DASHES.to_owned()));
    }

    #[test]
    fn every_shell_completes_the_programs_words() {
        assert!(own_text(Shell::Bash).contains("complete -F __tek_complete"));
        assert!(!own_text(Shell::Bash).contains("complete -F _tek "));
        let zsh = own_text(Shell::Zsh);
        let programs = zsh.lines().filter(|line| line.contains("_normal -p tek")).count();
        assert_eq!(
            programs,
            all().iter().filter(|starter| !starter.path.starts_with("help")).count()
        );
        assert!(own_text(Shell::Fish).contains("case 'lab run'"));
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(!own_text(shell).contains("{CASES}"));
        }
    }
}
