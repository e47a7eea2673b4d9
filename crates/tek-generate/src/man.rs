// SPDX-License-Identifier: MIT OR Apache-2.0
//! The man pages: one for each command.
use crate::create;
use anyhow::Context;
use clap::Command;
use clap_mangen::roff::{bold, roman, Roff};
use clap_mangen::Man;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Writes them.
pub fn write(mut command: Command, directory: &Path) -> anyhow::Result<()> {
    create(directory)?;
    command.build();
    // `tek help` is clap's own and needs no page.
    let command = command.mut_subcommand("help", |help| help.hide(true));
    let shown = || command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut pages = vec![("tek".to_owned(), command.clone())];
    for sub in shown() {
        add_pages(sub, "tek", &mut pages);
    }
    let names: Vec<_> = pages.iter().map(|(name, _)| name.clone()).collect();
    for (name, page) in pages {
        let path = directory.join(format!("{name}.1"));
        let text = man_page(&name, page, &names)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The page of a command, and those of its own commands.
fn add_pages(command: &Command, parent: &str, pages: &mut Vec<(String, Command)>) {
    let name = format!("{parent}-{}", command.get_name());
    let mut command = command.clone().bin_name(name.replace('-', " "));
    if command.has_subcommands() {
        command = command.mut_subcommand("help", |help| help.hide(true));
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        add_pages(sub, &name, pages);
    }
    pages.push((name, command));
}

fn man_page(name: &str, mut command: Command, all: &[String]) -> anyhow::Result<Vec<u8>> {
    let after_help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_commands = command.get_subcommands().any(|sub| !sub.is_hide_set());
    let version = concat!("TEK ", env!("CARGO_PKG_VERSION"));
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut usage = Roff::default();
    let line = command.render_usage().to_string();
    usage.control("SH", ["SYNOPSIS"]).text([roman(line.trim_start_matches("Usage: "))]);
    let man = Man::new(command).title(name.to_uppercase()).section("1").source(version);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // Not the library's section: man(1) wants `tek-run`, where the command is `tek run`.
    let mut head = Roff::default();
    head.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    head.to_writer(&mut page)?;
    usage.to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    sections(&after_help).to_writer(&mut page)?;
    let mut see = Roff::default();
    see.control("SH", ["SEE ALSO"]);
    for other in all.iter().filter(|other| *other != name) {
        see.text([bold(other.as_str()), roman("(1)")]);
    }
    // The pages that are written by hand, docs/man.
    see.text([bold("tek-rules"), roman("(5)")]);
    see.text([bold("libtek"), roman("(7)")]);
    see.text([bold("libtek-sync"), roman("(7)")]);
    see.text([bold("libtek-uthread"), roman("(7)")]);
    see.to_writer(&mut page)?;
    page.flush()?;
    Ok(page)
}

/// The sections below a command's help, each begun by a line such as `EXAMPLES:`. They are laid out
/// for a terminal already and are kept line by line.
fn sections(after_help: &str) -> Roff {
    let mut roff = Roff::default();
    let mut verbatim = false;
    for line in after_help.lines() {
        let title = line.strip_suffix(':').filter(|title| {
            !title.is_empty() && title.chars().all(|c| c.is_ascii_uppercase() || c == ' ')
        });
        if let Some(title) = title {
            if std::mem::take(&mut verbatim) {
                roff.control("fi", []);
            }
            roff.control("SH", [title]);
        } else {
            if !std::mem::replace(&mut verbatim, true) {
                roff.control("nf", []);
            }
            roff.text([roman(line)]);
        }
    }
    if verbatim {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    #[test]
    fn every_shown_command_has_examples_and_exit_statuses_in_its_man_page() {
        let mut command = definition();
        command.build();
        let names =
            ["run", "doctor", "suggest", "explain", "status", "critical", "exporter", "kthreads"];
        for name in names {
            let page = man_page("tek-x", command.find_subcommand(name).unwrap().clone(), &[]);
            let page = String::from_utf8(page.unwrap()).unwrap();
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXAMPLES"] {
                assert!(page.contains(section), "{name}: no {section}");
            }
            assert!(page.contains(".SH \"EXIT STATUS\""), "{name}: {page}");
        }
    }
}
