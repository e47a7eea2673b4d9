// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that the exporter answers to.
//!
//! A web page can make its reader's browser ask any address. It can read the answer if the name of
//! its own site leads to that address (DNS rebinding). The browser then sends the site's name as
//! `Host`.
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Addresses, localhost, the name of this device, and what `--host` adds.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// With these beside the usual ones.
    pub fn new(more: &[String]) -> Self {
        let own = fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let names = own.into_iter().chain(more.iter().cloned());
        Self(names.map(|name| canonical(name.trim())).filter(|name| !name.is_empty()).collect())
    }

    /// Whether a request with this `Host` is meant for this exporter.
    pub fn include(&self, host: &[u8]) -> bool {
        let Some(name) = std::str::from_utf8(host).ok().and_then(without_port) else {
            return false;
        };
        if let Some(address) = name.strip_prefix('[') {
            let address = address.strip_suffix(']');
            return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
        }
        let name = canonical(name);
        name.parse::<Ipv4Addr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.0.contains(&name)
    }
}

/// Names are compared without case, and may end with the dot of the root.
fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// `None`: it is no host with a port or without.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    };
    let is_address = name.starts_with('[');
    let is_fit =
        port.bytes().all(|byte| byte.is_ascii_digit()) && (is_address || !name.contains(':'));
    (is_fit && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_given_names_are_its_own() {
        let hosts = Hosts(vec!["fridge.lan".into()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:9835",
            "192.168.0.7:80",
            "[::1]",
            "[fe80::1]:9835",
            "localhost",
            "LocalHost:9835",
            "a.localhost",
            "localhost.",
            "fridge.lan",
            "Fridge.LAN.:9835",
        ] {
            assert!(hosts.include(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn names_of_other_hosts_and_what_is_no_name_are_not() {
        let hosts = Hosts(vec!["fridge.lan".into()]);
        for host in [
            "",
            ":80",
            "evil.example",
            "fridge.lan.evil.example",
            "evil-localhost",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "fridge",
            "[::1",
            "[evil.example]",
            "::1",
            "127.0.0.1:80:80",
            "127.0.0.1:x",
            "127.0.0.1@evil.example",
            "2130706433",
        ] {
            assert!(!hosts.include(host.as_bytes()), "{host}");
        }
        assert!(!hosts.include(b"\xff"));
    }

    #[test]
    fn the_name_of_the_device_is_its_own() {
        let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(Hosts::new(&[]).include(own.trim().as_bytes()));
        assert!(Hosts::new(&["oven".into()]).include(b"oven:9835"));
    }
}
