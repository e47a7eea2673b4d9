// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request over HTTP/1.1, and the answers that need no query.
use super::host::Hosts;
use super::page::MEDIA_TYPE;
use std::sync::Arc;

/// Heads of requests that are longer are refused. Prometheus sends some 300 bytes.
pub const MOST_BYTES: usize = 8192;
const MOST_HEADERS: usize = 64;

/// The request of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// It is not complete.
    Unfinished,
    /// The metrics; or only their head.
    Metrics {
        /// The method is HEAD.
        is_head: bool,
    },
    /// A request that is refused.
    Other(Refusal),
}

/// The answer to a refused request: status, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: &'static str,
    text: &'static str,
}

const NOT_UNDERSTOOD: Refusal =
    Refusal { status: "400 Bad Request", text: "This is no request of HTTP/1.1.\n" };
const NOT_THERE: Refusal =
    Refusal { status: "404 Not Found", text: "The metrics of TEK are at /metrics.\n" };
const NOT_ALLOWED: Refusal =
    Refusal { status: "405 Method Not Allowed", text: "Metrics are read, with GET.\n" };
const NOT_OURS: Refusal = Refusal {
    status: "421 Misdirected Request",
    text: "The exporter does not know itself by this name: ask for its address, or start it with \
           --host NAME.\n",
};
const TOO_LONG: Refusal = Refusal {
    status: "431 Request Header Fields Too Large",
    text: "A request has 64 headers and 8192 bytes at most.\n",
};

impl Request {
    /// Reads what has come so far, for an exporter of these names.
    pub fn read(bytes: &[u8], hosts: &Hosts) -> Self {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Partial) if bytes.len() < MOST_BYTES => return Self::Unfinished,
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Self::Other(TOO_LONG)
            }
            Ok(httparse::Status::Complete(_)) => {}
            Err(_) => return Self::Other(NOT_UNDERSTOOD),
        }
        let path = request.path.and_then(|path| path.split('?').next());
        match (request.method, path) {
            (Some("GET"), Some("/metrics")) => Self::metrics(&request, hosts, false),
            (Some("HEAD"), Some("/metrics")) => Self::metrics(&request, hosts, true),
            (Some("GET" | "HEAD"), _) => Self::Other(NOT_THERE),
            _ => Self::Other(NOT_ALLOWED),
        }
    }

    /// By any name except that of another site.
    fn metrics(request: &httparse::Request, hosts: &Hosts, is_head: bool) -> Self {
        let mut named =
            request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
        match (named.next(), named.next()) {
            // Browsers always send it.
            (None, _) => Self::Metrics { is_head },
            (Some(host), None) if hosts.include(host.value.trim_ascii()) => {
                Self::Metrics { is_head }
            }
            (Some(_), None) => Self::Other(NOT_OURS),
            (Some(_), Some(_)) => Self::Other(NOT_UNDERSTOOD),
        }
    }
}

/// The bytes to send: the head, and the body that many answers may share.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    head: String,
    body: Arc<str>,
}

impl Answer {
    /// The metrics.
    pub fn metrics(page: &Arc<str>, is_head: bool) -> Self {
        let head = head("200 OK", MEDIA_TYPE, page.len(), "");
        Self { head, body: if is_head { Arc::default() } else { page.clone() } }
    }

    /// Something else.
    pub fn refusal(refusal: Refusal) -> Self {
        let Refusal { status, text } = refusal;
        let allow = if refusal == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        let head = head(status, "text/plain; charset=utf-8", text.len(), allow);
        Self { head, body: text.into() }
    }

    /// The rest of it after so many bytes, in one piece; empty at its end.
    pub fn after(&self, sent: usize) -> &[u8] {
        match self.head.as_bytes().get(sent..).filter(|left| !left.is_empty()) {
            Some(left) => left,
            None => self.body.as_bytes().get(sent - self.head.len()..).unwrap_or_default(),
        }
    }
}

fn head(status: &str, media_type: &str, length: usize, more: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\n{more}Connection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Request {
        Request::read(bytes, &Hosts::new(&["x".into()]))
    }

    #[test]
    fn a_request_for_another_name_is_not_answered() {
        let request = |hosts: &str| read(format!("GET /metrics HTTP/1.{hosts}\r\n").as_bytes());
        let metrics = Request::Metrics { is_head: false };
        assert_eq!(request("1\r\nhost: 127.0.0.1:9835\r\n"), metrics);
        assert_eq!(request("0\r\n"), metrics);
        assert_eq!(request("1\r\nHost: evil.example\r\n"), Request::Other(NOT_OURS));
        assert_eq!(request("0\r\nHost: evil.example:9835\r\n"), Request::Other(NOT_OURS));
        assert_eq!(
            request("1\r\nHost: x\r\nHost: evil.example\r\n"),
            Request::Other(NOT_UNDERSTOOD)
        );
    }

    #[test]
    fn metrics_are_read_from_one_place() {
        let request = |text: &str| read(format!("{text}\r\nHost: x\r\n\r\n").as_bytes());
        let metrics = Request::Metrics { is_head: false };
        assert_eq!(request("GET /metrics HTTP/1.1"), metrics);
        assert_eq!(request("GET /metrics?name[]=tek HTTP/1.0"), metrics);
        assert_eq!(request("HEAD /metrics HTTP/1.1"), Request::Metrics { is_head: true });
        for (text, status) in [
            ("GET / HTTP/1.1", "404 Not Found"),
            ("GET /metricsx HTTP/1.1", "404 Not Found"),
            ("GET http://x/metrics HTTP/1.1", "404 Not Found"),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
            ("GET /metrics HTTP/2.0", "400 Bad Request"),
            ("\x16\x03\x01", "400 Bad Request"),
        ] {
            let Request::Other(refusal) = request(text) else { panic!("{text}") };
            assert_eq!(refusal.status, status);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_ends() {
        let line = "GET /metrics HTTP/1.1\r\n";
        assert_eq!(read(b""), Request::Unfinished);
        assert_eq!(read(line.as_bytes()), Request::Unfinished);
        let long = format!("{line}A: {}", "b".repeat(MOST_BYTES));
        assert_eq!(read(&long.as_bytes()[..MOST_BYTES - 1]), Request::Unfinished);
        assert_eq!(read(&long.as_bytes()[..MOST_BYTES]), Request::Other(TOO_LONG));
        let many = format!("{line}{}\r\n", "A: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(read(many.as_bytes()), Request::Other(TOO_LONG));
    }

    #[test]
    fn an_answer_is_sent_piece_by_piece() {
        let answer = Answer::metrics(&"tek_tekd_up 1\n".into(), false);
        let (mut sent, mut got) = (0, Vec::new());
        while !answer.after(sent).is_empty() {
            let piece = &answer.after(sent)[..1];
            got.extend(piece);
            sent += 1;
        }
        let text = String::from_utf8(got).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("Content-Length: 14\r\n"));
        assert!(text.ends_with("\r\n\r\ntek_tekd_up 1\n"), "{text}");
        let head = Answer::metrics(&"tek_tekd_up 1\n".into(), true);
        assert!(String::from_utf8_lossy(head.after(0)).contains("Content-Length: 14\r\n"));
        assert!(head.after(head.head.len()).is_empty());
        assert!(Answer::refusal(NOT_ALLOWED).head.contains("Allow: GET, HEAD\r\n"));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_answered_or_waited_for(bytes: Vec<u8>) {
            if let Request::Other(refusal) = read(&bytes) {
                prop_assert!(!Answer::refusal(refusal).after(0).is_empty());
            }
        }
    }
}
