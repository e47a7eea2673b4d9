// SPDX-License-Identifier: MIT OR Apache-2.0
//! gcc's call graphs: -fcallgraph-info=su, in the VCG format.
use super::{grows, Frame, Graph};

/// gcc's name for the target of a call through a pointer.
const INDIRECT: &str = "__indirect_call";
/// -fstack-protector: each of these ends the process, so no thread needs stack for it.
const FATAL: [&str; 2] = ["__stack_chk_fail", "__stack_chk_fail_local"];

impl Graph {
    /// Adds a .ci file; returns the number of functions with frames in it.
    pub fn add_ci(&mut self, bytes: &[u8]) -> usize {
        self.files += 1;
        let mut unit = None;
        let mut found = 0;
        for line in bytes.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("graph:") {
                unit = attribute(rest, "title").map(|title| format!("{title}:"));
            } else if let Some(rest) = line.strip_prefix("node:") {
                found += usize::from(self.add_node(rest, unit.as_deref()));
            } else if let Some(rest) = line.strip_prefix("edge:") {
                self.add_edge(rest, unit.as_deref());
            }
        }
        found
    }

    fn add_node(&mut self, text: &str, unit: Option<&str>) -> bool {
        let Some(title) = attribute(text, "title") else { return false };
        if title == INDIRECT || FATAL.contains(&title) {
            return false;
        }
        let index = self.function(title, unit);
        let function = &mut self.functions[index];
        let Some(label) = last_attribute(text, "label") else { return false };
        let mut parts = label.split("\\n");
        if let Some(name) = parts.next().filter(|name| !name.is_empty()) {
            function.name = name.to_owned();
        }
        let Some(place) = parts.next() else { return false };
        let frame = parts.find_map(frame);
        if frame.is_some() || function.frame.is_none() {
            function.place = place.to_owned();
        }
        if let Some(frame) = frame {
            function.add_frame(frame);
            function.calls_unknown = false;
        }
        frame.is_some()
    }

    fn add_edge(&mut self, text: &str, unit: Option<&str>) {
        let (Some(from), Some(to)) = (attribute(text, "sourcename"), attribute(text, "targetname"))
        else {
            return;
        };
        if from == INDIRECT || FATAL.contains(&to) {
            return;
        }
        let from = self.function(from, unit);
        if to == INDIRECT {
            self.functions[from].calls_indirectly = true;
        } else {
            let to = self.function(to, unit);
            self.functions[from].calls.push(to);
        }
    }
}

/// The value of `NAME: "VALUE"`.
fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(name)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(value, _)| value)
}

/// The same of the last one in a line, which may hold quotation marks: `operator""_km`.
fn last_attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!(" {name}:"))?;
    let rest = rest.trim_start().strip_prefix('"')?;
    rest.rsplit_once('"').map(|(value, _)| value)
}

/// `96 bytes (static)`.
fn frame(text: &str) -> Option<Frame> {
    let (bytes, kind) = text.split_once(" bytes (")?;
    Some(Frame { bytes: bytes.trim().parse().ok()?, grows: grows(kind.strip_suffix(')')?) })
}
