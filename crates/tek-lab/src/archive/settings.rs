// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that restrict apt to a state of its own.
use super::entry::Entry;
use std::fmt::Write as _;
use std::path::Path;

/// The entries as a file of apt's sources.
pub(super) fn sources(entries: &[Entry], architecture: &str) -> String {
    let mut text = String::new();
    for Entry { uri, suite, keyring } in entries {
        let _ = write!(
            text,
            "Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nArchitectures: \
             {architecture}\n"
        );
        if let Some(keyring) = keyring {
            let _ = writeln!(text, "Signed-By: {}", keyring.display());
        }
        text.push('\n');
    }
    text
}

/// The machine's own settings (proxies, certificates) apply, except those that would accept
/// unsigned files, change other files, or download more than is needed.
pub(super) fn configuration(state: &Path, architecture: &str) -> String {
    let state = state.display();
    format!(
        r#"Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{state}/sources";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "{state}";
Dir::State::Lists "{state}/lists";
Dir::State::Status "{state}/status";
Dir::State::extended_states "{state}/extended";
Dir::Cache "{state}/cache";
Dir::Cache::Archives "{state}/cache/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Log "{state}";
#clear APT::Architectures;
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Default-Release "";
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "false";
APT::Update::Error-Mode "any";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear Acquire::IndexTargets;
Acquire::IndexTargets {{ deb::Packages {{
  MetaKey "$(COMPONENT)/binary-$(ARCHITECTURE)/Packages";
  ShortDescription "Packages";
  Description "$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Packages";
  Optional "no";
}}; }};
"#
    )
}

#[cfg(test)]
mod tests {
    use super::{sources, Entry};

    #[test]
    fn an_entry_names_the_keys_that_may_sign_it() {
        let entry = Entry {
            uri: "file:/archive".into(),
            suite: "bookworm".into(),
            keyring: Some("/keys.gpg".into()),
        };
        let text = sources(&[entry], "armhf");
        assert!(text.contains("Suites: bookworm\n") && text.contains("Architectures: armhf\n"));
        assert!(text.contains("Signed-By: /keys.gpg\n"));
    }
}
