//! A host that the operator allows: a name, an address, or `*.` and the end of names.

use std::fmt;
use std::str::FromStr;

use url::Host;

/// An entry of the operator's list of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// In the form of a parsed URL: lower case, ASCII, without the final dot.
    text: String,
    /// Whether the pattern means names below `text` instead of `text` itself.
    below: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use a host such as hooks.example.com, or *.example.com for all names below example.com")]
pub struct BadHostPattern;

impl HostPattern {
    /// Whether `host`, as a parsed URL has it, matches.
    pub(super) fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        if !self.below {
            return host == self.text;
        }
        // The dot keeps `*.example.com` from matching `evilexample.com`.
        host.strip_suffix(self.text.as_str()).is_some_and(|start| start.len() > 1 && start.ends_with('.'))
    }
}

impl FromStr for HostPattern {
    type Err = BadHostPattern;

    fn from_str(text: &str) -> Result<HostPattern, BadHostPattern> {
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        // The same parser as for URLs, so that both have one form.
        let host = Host::parse(name).map_err(|_| BadHostPattern)?;
        match host {
            Host::Domain(name) => {
                let text = name.strip_suffix('.').unwrap_or(&name).to_owned();
                if !super::can_be_resolved(&text) { Err(BadHostPattern) } else { Ok(HostPattern { text, below }) }
            }
            Host::Ipv4(_) | Host::Ipv6(_) if below => Err(BadHostPattern),
            address => Ok(HostPattern { text: address.to_string(), below }),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, host: &str, want: bool) {
        assert_eq!(pattern.parse::<HostPattern>().unwrap().matches(host), want, "{pattern} {host}");
    }

    #[test]
    fn a_name_matches_itself_only() {
        check("hooks.example.com", "hooks.example.com", true);
        check("Hooks.Example.com.", "hooks.example.com", true);
        check("hooks.example.com", "hooks.example.com.", true);
        check("example.com", "hooks.example.com", false);
        check("example.com", "example.com.evil.test", false);
        check("192.0.2.1", "192.0.2.1", true);
        check("[2001:DB8::1]", "[2001:db8::1]", true);
        check("bücher.example", "xn--bcher-kva.example", true);
    }

    #[test]
    fn a_star_matches_every_name_below_and_not_the_name() {
        for below in ["a.example.com", "a.b.example.com."] {
            check("*.example.com", below, true);
        }
        for other in ["example.com", ".example.com", "evilexample.com", "a.example.com.evil.test"] {
            check("*.example.com", other, false);
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["", "*", "*.", "a.*.com", "*.*.com", "*.192.0.2.1", "https://example.com", "a/b", "a:443", "a b"] {
            assert_eq!(text.parse::<HostPattern>(), Err(BadHostPattern), "{text:?}");
        }
    }
}
