// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix as one self-contained page: a heat map, and the distribution of each cell.

use super::cell::Cell;
use super::column::Column;
use super::heat;
use super::rounds::{Plan, Session};
use super::row::Row;
use super::summary::{CellSummary, Summaries};
use crate::host::Host;
use crate::svg::escaped;
use std::fmt::Write;

const STYLE: &str = "body{font:15px sans-serif;margin:2em;color:#24292f;background:#fff}\
table{border-collapse:collapse;margin:1em 0}th,td{padding:.4em .8em;text-align:right}\
th:first-child{text-align:left}td{border:2px solid #fff}td.empty{background:#eaeef2;color:#57606a}\
p{color:#57606a;max-width:50em}svg{vertical-align:middle}.dot{fill:#0969da;fill-opacity:.35}\
.p50,.p99{stroke-width:2}.p50{stroke:#24292f}.p99{stroke:#cf222e}.axis{stroke:#d0d7de}";

/// Size of a plot, in pixels.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 24.0;

/// The page.
pub fn page(plan: &Plan, session: &Session, summaries: &Summaries, host: &Host) -> String {
    let title = "How long a critical thread takes to answer when it waits for others";
    let cpu = host.cpu.as_deref().unwrap_or(host.architecture);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n\
         <p>{}; {}. {} rounds of {} events beside {} hogs.</p>\n",
        escaped(&host.describe()),
        escaped(cpu),
        plan.rounds,
        plan.events,
        plan.hogs,
    );
    if let Some(warning) = host.warning() {
        let _ = writeln!(page, "<p>Caution: {}</p>", escaped(&warning));
    }
    page += "<p>p99 of a round by that of alone in the same round, median over the rounds. Alone: \
             p99 in ms. rtkit and pi-mutex need a change of the program. An empty cell shows its \
             reason under the pointer.</p>\n";
    page += &heat_map(plan, session, summaries);
    for row in &plan.rows {
        page += &distributions(*row, plan, session, summaries);
    }
    page + "</body></html>\n"
}

fn header(words: &[&str]) -> String {
    let cells: String = words.iter().map(|word| format!("<th>{}</th>", escaped(word))).collect();
    format!("<tr>{cells}</tr>\n")
}

fn heat_map(plan: &Plan, session: &Session, summaries: &Summaries) -> String {
    let mut words = vec!["p99"];
    words.extend(plan.columns.iter().map(|column| column.name()));
    let mut map = format!("<table class=\"heat\">\n{}", header(&words));
    for row in &plan.rows {
        let _ = write!(map, "<tr><th>{}</th>", escaped(row.name()));
        for column in &plan.columns {
            map += &heat_cell((*row, *column), session, summaries);
        }
        map += "</tr>\n";
    }
    map + "</table>\n"
}

fn heat_cell(cell: Cell, session: &Session, summaries: &Summaries) -> String {
    let Some(summary) = summaries.get(&cell) else {
        return format!("<td class=\"empty\" title=\"{}\"></td>", escaped(reason(cell, session)));
    };
    let tip = format!("mean {:.2} ms", summary.response_ms.mean);
    match summary.p99_ratio {
        Some(ratio) if cell.1 != Column::Alone => format!(
            "<td style=\"background:{}\" title=\"{tip}\">{}</td>",
            heat::css(ratio),
            heat::ratio(ratio)
        ),
        _ => format!("<td title=\"{tip}\">{:.1} ms</td>", summary.response_ms.p99),
    }
}

fn reason(cell: Cell, session: &Session) -> &str {
    session.empty.get(&cell).map_or("not measured", String::as_str)
}

/// A section of the page: the numbers of a row's cells, and a plot for each of them.
fn distributions(row: Row, plan: &Plan, session: &Session, summaries: &Summaries) -> String {
    let cells = || plan.columns.iter().map(|column| (row, *column));
    let measured = || cells().filter_map(|cell| summaries.get(&cell));
    let least = measured().map(|it| it.response_ms.min).fold(f64::INFINITY, f64::min);
    let most = measured().map(|it| it.response_ms.max).fold(0.0, f64::max);
    let words = ["ms", "mean", "p50", "p99", "max", "p99 / alone", "mean / alone", "work"];
    let mut section = format!(
        "<h2>{}</h2>\n<table>\n{}",
        escaped(row.name()),
        header(&[&words[..], &["responses, from the shortest to the longest of the row"]].concat())
    );
    for cell in cells() {
        let _ = write!(section, "<tr><th>{}</th>", escaped(cell.1.name()));
        section += &match summaries.get(&cell) {
            Some(summary) => numbers(summary) + &plot(summary, least, most),
            None => format!(
                "<td class=\"empty\" colspan=\"{}\">{}</td>",
                words.len(),
                escaped(reason(cell, session))
            ),
        };
        section += "</tr>\n";
    }
    section + "</table>\n"
}

fn numbers(summary: &CellSummary) -> String {
    let response = &summary.response_ms;
    let times = [response.mean, response.p50, response.p99, response.max];
    let ratios = [summary.p99_ratio, summary.mean_ratio, summary.work_ratio];
    let times = times.map(|ms| format!("{ms:.2}"));
    let ratios = ratios.map(|ratio| ratio.map_or_else(|| "-".to_owned(), heat::ratio));
    times.iter().chain(&ratios).map(|text| format!("<td>{text}</td>")).collect()
}

/// A dot for each response on a logarithmic axis; lines at the median and at the p99.
fn plot(summary: &CellSummary, least: f64, most: f64) -> String {
    let span = (most / least).ln();
    let x = |ms: f64| {
        let share = if span > 0.0 { (ms / least).ln() / span } else { 0.5 };
        6.0 + share * (WIDTH - 12.0)
    };
    let middle = HEIGHT / 2.0;
    let mut plot = format!(
        "<td><svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"distribution\">\
         <path class=\"axis\" d=\"M0 {middle}H{WIDTH}\"/>"
    );
    for ms in &summary.all_ms {
        let _ =
            write!(plot, "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{middle}\" r=\"3\"/>", x(*ms));
    }
    for (class, ms) in [("p50", summary.response_ms.p50), ("p99", summary.response_ms.p99)] {
        let _ = write!(plot, "<path class=\"{class}\" d=\"M{:.1} 2V{}\"/>", x(ms), HEIGHT - 2.0);
    }
    plot + "</svg></td>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::fixture::{plan, session};
    use crate::matrix::summary::summarize;

    fn html() -> String {
        let host = Host {
            kernel: "6.18".to_owned(),
            architecture: "x86_64",
            cpu: Some("Model <script>".to_owned()),
            cpus: 2,
            autogroup: None,
            governor: Some("a&b".to_owned()),
            cgroups: Vec::new(),
            stalld: false,
            busy_before: None,
        };
        page(&plan(), &session(), &summarize(&session()), &host)
    }

    #[test]
    fn text_of_the_machine_and_of_errors_is_escaped() {
        let page = html();
        assert!(page.contains("Model &lt;script&gt;") && page.contains("governor a&amp;b"));
        assert_eq!(page.matches("no &lt;privilege&gt;").count(), 2);
        assert!(!page.contains("<script") && !page.contains("<privilege"));
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = html();
        for word in ["http://", "https://", "src=", "href", "url(", "@import", "<link"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn each_cell_has_a_ratio_and_a_plot_of_all_its_responses() {
        let page = html();
        assert_eq!(page.matches("<svg").count(), 3);
        assert_eq!(page.matches("<circle").count(), 12);
        assert!(page.contains(">15.0</td>") && page.contains(">1.12</td>"));
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}
