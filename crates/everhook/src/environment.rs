//! The process environment. No other file reads it.

/// Prefix of the variables that configure Everhook.
pub(crate) const PREFIX: &str = "EVERHOOK_";

/// Variables with the prefix that are no settings: for tests, and for commands that talk to a server.
const NOT_SETTINGS: [&str; 3] = ["TEST_", "URL", "KEY"];

/// An `EVERHOOK_*` variable that may be a setting.
pub(crate) struct Variable {
    pub(crate) name: String,
    /// `None` if the value is not UTF-8.
    pub(crate) value: Option<String>,
}

impl Variable {
    /// The name of the setting: lower case, without the prefix.
    pub(crate) fn key(&self) -> String {
        self.name.strip_prefix(PREFIX).unwrap_or(&self.name).to_ascii_lowercase()
    }
}

/// Returns every `EVERHOOK_*` variable that may be a setting, sorted by name.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
pub(crate) fn settings() -> Vec<Variable> {
    let is_setting = |name: &str| {
        let Some(name) = name.strip_prefix(PREFIX) else { return false };
        !NOT_SETTINGS.iter().any(|not| name == *not || (not.ends_with('_') && name.starts_with(not)))
    };
    let mut variables = std::env::vars_os()
        .filter_map(|(name, value)| Some(Variable { name: name.into_string().ok()?, value: value.into_string().ok() }))
        .filter(|variable| is_setting(&variable.name))
        .collect::<Vec<_>>();
    variables.sort_by(|a, b| a.name.cmp(&b.name));
    variables
}

/// Whether Kubernetes sets the variable for a Service, as in every container of the namespace: `EVERHOOK_PORT` or
/// `EVERHOOK_API_SERVICE_HOST`, for Services named `everhook` and `everhook-api`.
pub(crate) fn is_service_link(variable: &Variable) -> bool {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    let words = variable.name.split('_').skip(1).collect::<Vec<_>>();
    let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let of_port = |words: &[&str]| match words {
        ["PORT", number, protocol, rest @ ..] if is_number(number) && PROTOCOLS.contains(protocol) => {
            matches!(rest, [] | ["PROTO" | "PORT" | "ADDR"])
        }
        _ => false,
    };
    let is_address = || {
        let scheme = variable.value.as_deref().and_then(|value| value.split_once("://")).map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| PROTOCOLS.iter().any(|protocol| protocol.eq_ignore_ascii_case(scheme)))
    };
    (0..words.len()).any(|start| match &words[start..] {
        ["SERVICE", "HOST"] | ["SERVICE", "PORT", ..] => true,
        ["PORT"] => is_address(),
        rest => of_port(rest),
    })
}

/// Address and key of a running server.
pub(crate) struct Remote {
    pub(crate) url: Option<String>,
    pub(crate) key: Option<String>,
}

impl Remote {
    pub(crate) fn is_empty(&self) -> bool {
        self.url.is_none() && self.key.is_none()
    }
}

/// The folder for the user's configuration files.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
pub(crate) fn config_folder() -> Option<std::path::PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))
}

/// Whether the user does not want colours, or the terminal has none.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
pub(crate) fn is_colour_off() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Reads address and key of the server.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
pub(crate) fn remote() -> Remote {
    let variable = |name: &str| std::env::var(format!("{PREFIX}{name}")).ok().filter(|value| !value.is_empty());
    Remote { url: variable("URL"), key: variable("KEY") }
}

/// The host name, for the session table.
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "node".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_link(name: &str, value: &str) -> bool {
        is_service_link(&Variable { name: name.to_owned(), value: Some(value.to_owned()) })
    }

    #[test]
    fn variables_that_kubernetes_sets_for_a_service_are_told_from_settings() {
        let links = [
            ("EVERHOOK_SERVICE_HOST", "10.96.0.7"),
            ("EVERHOOK_SERVICE_PORT", "8071"),
            ("EVERHOOK_SERVICE_PORT_HTTP", "8071"),
            ("EVERHOOK_SERVICE_PORT_HTTP_ALT", "8071"),
            ("EVERHOOK_PORT", "tcp://10.96.0.7:8071"),
            ("EVERHOOK_PORT_8071_TCP", "tcp://10.96.0.7:8071"),
            ("EVERHOOK_PORT_8071_TCP_PROTO", "tcp"),
            ("EVERHOOK_PORT_8071_TCP_PORT", "8071"),
            ("EVERHOOK_PORT_8071_TCP_ADDR", "10.96.0.7"),
            ("EVERHOOK_API_SERVICE_HOST", "10.96.0.8"),
            ("EVERHOOK_API_PORT", "udp://10.96.0.8:53"),
            ("EVERHOOK_API_PORT_53_UDP_ADDR", "10.96.0.8"),
        ];
        for (name, value) in links {
            assert!(is_link(name, value), "{name}");
        }
        let others = [
            ("EVERHOOK_PORT", "8071"),
            ("EVERHOOK_PORTS", "tcp://10.96.0.7:8071"),
            ("EVERHOOK_PORT_HTTP_TCP", ""),
            ("EVERHOOK_PORT_8071_TCP_NAME", ""),
            ("EVERHOOK_SERVICE", "x"),
            ("EVERHOOK_LISTEN", "tcp://10.96.0.7:8071"),
        ];
        for (name, value) in others {
            assert!(!is_link(name, value), "{name}");
        }
    }
}
