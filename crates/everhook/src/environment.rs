//! The process environment. The only file that reads it.

/// Variables that configure Everhook begin with this.
pub(crate) const PREFIX: &str = "EVERHOOK_";

/// Variables of ours that are not settings: they belong to tests and to commands that talk to a server.
const NOT_SETTINGS: [&str; 3] = ["TEST_", "URL", "KEY"];

/// Every `EVERHOOK_*` setting: its name in lower case without the prefix, and its value.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
pub(crate) fn settings() -> Vec<(String, String)> {
    let named = |(name, value): (String, String)| Some((name.strip_prefix(PREFIX)?.to_owned(), value));
    let is_setting =
        |name: &str| !NOT_SETTINGS.iter().any(|not| name == *not || (not.ends_with('_') && name.starts_with(not)));
    let mut settings = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter_map(named)
        .filter(|(name, _)| is_setting(name))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect::<Vec<_>>();
    settings.sort();
    settings
}

/// Where a running server is, and with which key it is asked.
pub(crate) struct Remote {
    pub(crate) url: Option<String>,
    pub(crate) key: Option<String>,
}

/// What commands that talk to a server are told.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
pub(crate) fn remote() -> Remote {
    let variable = |name: &str| std::env::var(format!("{PREFIX}{name}")).ok().filter(|value| !value.is_empty());
    Remote { url: variable("URL"), key: variable("KEY") }
}

/// The host's name, for the session table.
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "node".to_owned(), |name| name.trim().to_owned())
}
