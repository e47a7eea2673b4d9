// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of metrics: the text format of Prometheus, version 0.0.4.
use std::fmt::Write;

/// Its media type over HTTP.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// 1 or 0.
pub fn flag(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

/// A page that is being written.
#[derive(Default)]
pub struct Page {
    text: String,
}

/// A metric, to which samples are written. Without samples it is not on the page.
pub struct Metric<'a> {
    page: &'a mut Page,
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    is_begun: bool,
}

impl Page {
    /// A metric that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> Metric<'_> {
        Metric { page: self, name, help, kind: "gauge", is_begun: false }
    }

    /// A metric that only grows while its source lives. Its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> Metric<'_> {
        Metric { page: self, name, help, kind: "counter", is_begun: false }
    }

    /// Quantiles of a measured value.
    pub fn summary(&mut self, name: &'static str, help: &'static str) -> Metric<'_> {
        Metric { page: self, name, help, kind: "summary", is_begun: false }
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.text
    }
}

impl Metric<'_> {
    /// Its only sample.
    pub fn is(mut self, value: f64) {
        self.with(&[], value);
    }

    /// Its only sample, if it is known.
    pub fn may_be(self, value: Option<f64>) {
        if let Some(value) = value {
            self.is(value);
        }
    }

    /// One of its samples. No two of a metric have the same labels.
    pub fn with(&mut self, labels: &[(&'static str, &str)], value: f64) {
        let (name, text) = (self.name, &mut self.page.text);
        if !std::mem::replace(&mut self.is_begun, true) {
            // Writing to a String does not fail.
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {}", self.help, self.kind);
        }
        text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{label}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_help_type_and_samples_of_each_metric() {
        let mut page = Page::default();
        page.gauge("tek_up", "Whether.").is(1.0);
        page.gauge("tek_none", "Not known.").may_be(None);
        page.gauge("tek_empty", "Without samples.");
        let mut counter = page.counter("tek_x_total", "So many.");
        counter.with(&[("a", "1"), ("b", "2")], 0.05);
        counter.with(&[("a", "2"), ("b", "2")], 123_456_789_012.0);
        let wanted =
            "# HELP tek_up Whether.\n# TYPE tek_up gauge\ntek_up 1\n# HELP tek_x_total So many.\n# \
             TYPE tek_x_total counter\ntek_x_total{a=\"1\",b=\"2\"} \
             0.05\ntek_x_total{a=\"2\",b=\"2\"} 123456789012\n";
        assert_eq!(page.into_text(), wanted);
    }

    #[test]
    fn no_value_of_a_label_can_end_it() {
        let mut page = Page::default();
        page.gauge("tek_a", "A.").with(&[("b", "c\\\"} 1\ntek_up 0")], 2.0);
        let text = page.into_text();
        assert_eq!(text.lines().last(), Some("tek_a{b=\"c\\\\\\\"} 1\\ntek_up 0\"} 2"));
    }
}
