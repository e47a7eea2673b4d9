// SPDX-License-Identifier: MIT OR Apache-2.0
//! The diagnosis as text.
use super::check::Answer;
use super::Diagnosis;
use anstyle::{AnsiColor, Style};
use std::io::{self, Write};

const CURE_INDENT: &str = "                              ";

/// Prints the diagnosis. The stream drops colours where they are not wanted (no terminal,
/// NO_COLOR).
pub fn print(diagnosis: &Diagnosis, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", diagnosis.kernel)?;
    writeln!(out, "\nWhat there is")?;
    for check in &diagnosis.checks {
        row(out, check.answer, check.id, &check.found, check.cure.as_deref())?;
    }
    writeln!(out, "\nWays to put threads first that this kernel and this user allow")?;
    for backend in &diagnosis.backends {
        let answer = if backend.usable { Answer::Yes } else { Answer::No };
        row(out, answer, backend.name, &backend.why, backend.cure.as_deref())?;
    }
    Ok(())
}

fn row(
    out: &mut impl Write,
    answer: Answer,
    name: &str,
    found: &str,
    cure: Option<&str>,
) -> io::Result<()> {
    let (word, colour) = match answer {
        Answer::Yes => ("yes", Some(AnsiColor::Green)),
        Answer::No => ("no", Some(AnsiColor::Red)),
        Answer::Info => ("-", None),
        Answer::Unknown => ("?", Some(AnsiColor::Yellow)),
    };
    let style = colour.map_or(Style::new(), |colour| colour.on_default());
    writeln!(out, "  {style}{word:<4}{style:#} {name:<22} {found}")?;
    for line in cure.into_iter().flat_map(str::lines) {
        writeln!(out, "{CURE_INDENT}cure: {line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::check::Check;
    use super::super::Backend;
    use super::*;

    #[test]
    fn each_no_is_followed_by_its_cure() {
        let cure = Some("do this".to_owned());
        let found = "not there".to_owned();
        let diagnosis = Diagnosis {
            schema: 1,
            kernel: "Linux 6.18".into(),
            checks: vec![Check { id: "psi", answer: Answer::No, found, cure }],
            backends: vec![Backend { name: "rt", usable: true, why: "ok".into(), cure: None }],
        };
        let mut text = anstream::StripStream::new(Vec::new());
        print(&diagnosis, &mut text).unwrap();
        let text = String::from_utf8(text.into_inner()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[3], "  no   psi                    not there");
        assert_eq!(lines[4].trim(), "cure: do this");
        assert!(text.ends_with("  yes  rt                     ok\n"));
    }
}
