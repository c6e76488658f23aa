//! Configuration: defaults < TOML file < `EVERHOOK_*` variables < flags, checked once into a [`Config`].
//!
//! Every layer is a table of the same flat keys. An unknown key, a wrong type or a value out of range is an error that
//! names the key, its source and the remedy. Only an unknown variable is a warning: other programs set variables, too.
//! The service links of Kubernetes are ignored silently.

mod check;
mod outboxes;
mod reference;

pub(crate) use check::check_url;
pub(crate) use reference::page as reference_page;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use everhook_api::{ShownSetting, TlsFiles};
use everhook_core::api_key::ApiKey;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::nearest::nearest;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::signing::SignatureKind;
use everhook_engine::config::JobsConfig;
use everhook_engine::retention::Ages;
use everhook_sender::{Egress, Proxy};
use everhook_sqlite::SealSource;
use http::Uri;
use ipnet::IpNet;
use toml::{Table, Value};
use tracing_subscriber::filter::Targets;

use crate::environment::{self, Variable};

/// The checked configuration of a server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// Second listener for health and metrics.
    pub(crate) listen_ops: Option<SocketAddr>,
    /// The certificate of the API's listener.
    pub(crate) tls: Option<TlsFiles>,
    /// The beginning of links to this server, without a slash at the end.
    pub(crate) public_url: Option<String>,
    /// Origins of pages that may show the portal in a frame.
    pub(crate) embed_origins: Vec<String>,
    /// Origins of pages that may call the API with application tokens; `*` for every origin.
    pub(crate) cors_origins: Vec<String>,
    /// Further hosts of chat endpoints.
    pub(crate) chat_hosts: Vec<String>,
    pub(crate) connections_per_address: usize,
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Failed authentications per client address and minute; 0 for no limit.
    pub(crate) auth_failures_per_minute: u32,
    pub(crate) role: Role,
    pub(crate) store: StoreConfig,
    /// How long a starting server waits for its database.
    pub(crate) database_wait: Duration,
    pub(crate) auto_migrate: bool,
    pub(crate) dispatch: DispatchConfig,
    pub(crate) wakeups: bool,
    pub(crate) lease: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long a stopping node continues to serve requests.
    pub(crate) stop_delay: Duration,
    /// The interval at which alert rules are evaluated.
    pub(crate) alert_interval: Duration,
    pub(crate) grace: Duration,
    pub(crate) jobs: JobsConfig,
    pub(crate) retention: Ages,
    /// Without the addresses of the listeners, which are known after the start.
    pub(crate) egress: Egress,
    pub(crate) egress_proxy: Option<Proxy>,
    pub(crate) default_signature: SignatureKind,
    pub(crate) jwt_secret: Option<Secret>,
    /// The place of the keys that seal secrets.
    pub(crate) secrets: SealSource,
    /// The first key of an empty store.
    pub(crate) bootstrap_key: Option<ApiKey>,
    pub(crate) log_filter: Targets,
    pub(crate) log_format: LogFormat,
    pub(crate) otlp: Option<Otlp>,
    pub(crate) outboxes: Vec<OutboxConfig>,
    /// Every setting with its source, without secrets.
    pub(crate) shown: Vec<ShownSetting>,
}

/// The export of traces.
#[derive(Clone, Debug)]
pub(crate) struct Otlp {
    pub(crate) url: Uri,
    /// The `Authorization` header of each request.
    pub(crate) authorization: Option<Secret>,
    /// The share of messages that are traced, unless their senders decide.
    pub(crate) share: f64,
}

/// A text that no log shows: a secret, or a URL that may hold a password.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(redacted)")
    }
}

#[derive(Clone, Debug)]
pub(crate) enum StoreConfig {
    Sqlite { folder: PathBuf },
    Postgres { url: Secret, direct_url: Option<Secret>, pool_size: usize, pooler: bool, tenant_role: Option<String> },
}

/// An outbox outside the store's own database.
#[derive(Clone, Debug)]
pub(crate) struct OutboxConfig {
    pub(crate) name: String,
    pub(crate) place: OutboxPlace,
    pub(crate) environment: Option<String>,
    pub(crate) poll_interval: Duration,
}

#[derive(Clone, Debug)]
pub(crate) enum OutboxPlace {
    Postgres { url: Secret, pooler: bool },
    Sqlite { file: PathBuf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The options of the command line. Not `Debug`: the database's URL may hold a password.
#[derive(Clone, Default)]
pub(crate) struct Flags {
    pub(crate) listen: Option<String>,
    pub(crate) listen_ops: Option<String>,
    pub(crate) public_url: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) database: Option<String>,
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Secret,
    Url,
    Number,
    Switch,
    Texts,
    Numbers,
    /// Only in the file: `[[key]]`, repeatable.
    Tables,
}

/// All keys. `TEMPLATE` documents them; a test compares both.
const KEYS: &[(&str, Kind)] = &[
    ("listen", Kind::Text),
    ("listen_ops", Kind::Text),
    ("tls_certificate", Kind::Text),
    ("tls_key", Kind::Text),
    ("public_url", Kind::Text),
    ("embed_origins", Kind::Texts),
    ("cors_origins", Kind::Texts),
    ("chat_hosts", Kind::Texts),
    ("connections_per_address", Kind::Number),
    ("trusted_proxies", Kind::Texts),
    ("auth_failures_per_minute", Kind::Number),
    ("role", Kind::Text),
    ("data", Kind::Text),
    ("database", Kind::Url),
    ("database_direct", Kind::Url),
    ("database_pool", Kind::Number),
    ("database_pooler", Kind::Switch),
    ("database_tenant_role", Kind::Text),
    ("database_wait_seconds", Kind::Number),
    ("auto_migrate", Kind::Switch),
    ("retry_schedule", Kind::Numbers),
    ("timeout_seconds", Kind::Number),
    ("connect_timeout_seconds", Kind::Number),
    ("lease_seconds", Kind::Number),
    ("stop_delay_seconds", Kind::Number),
    ("grace_seconds", Kind::Number),
    ("wakeups", Kind::Switch),
    ("poll_interval_ms", Kind::Number),
    ("slots", Kind::Number),
    ("slots_per_endpoint", Kind::Number),
    ("jobs", Kind::Switch),
    ("schedules", Kind::Switch),
    ("job_slots", Kind::Number),
    ("job_slots_per_queue", Kind::Number),
    ("job_ahead", Kind::Number),
    ("job_push_timeout_seconds", Kind::Number),
    ("alert_interval_seconds", Kind::Number),
    ("keep_messages_days", Kind::Number),
    ("keep_dead_deliveries_days", Kind::Number),
    ("keep_once_slots_days", Kind::Number),
    ("keep_jobs_days", Kind::Number),
    ("keep_batches_days", Kind::Number),
    ("keep_runs_days", Kind::Number),
    ("keep_sessions_days", Kind::Number),
    ("keep_bytes_max", Kind::Text),
    ("egress_allow", Kind::Texts),
    ("egress_deny", Kind::Texts),
    ("egress_hosts", Kind::Texts),
    ("egress_ports", Kind::Numbers),
    ("https_only", Kind::Switch),
    ("egress_nat64", Kind::Switch),
    ("egress_proxy", Kind::Secret),
    ("egress_proxy_resolves", Kind::Switch),
    ("default_signature", Kind::Text),
    ("jwt_secret", Kind::Secret),
    ("secrets_key_file", Kind::Text),
    ("secrets_keys", Kind::Secret),
    ("bootstrap_key", Kind::Secret),
    ("log_level", Kind::Text),
    ("log_format", Kind::Text),
    ("otlp_url", Kind::Text),
    ("otlp_authorization", Kind::Secret),
    ("trace_share", Kind::Text),
    ("outbox", Kind::Tables),
];

/// The source of a value, as error messages show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Default,
    File(PathBuf),
    Variable(String),
    Flag,
}

/// The effective values with their sources, not yet checked. Not `Debug`, because some values are secrets: see `show`.
#[derive(Clone)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, (Value, Source)>,
    /// Messages about variables that look like settings but are unknown.
    warnings: Vec<String>,
}

impl Settings {
    pub(crate) const TEMPLATE: &str = include_str!("config/template.toml");

    /// Reads all layers: defaults, file, variables, flags.
    pub(crate) fn load(file: Option<&Path>, flags: Flags) -> anyhow::Result<Settings> {
        let mut settings = Settings::defaults();
        if let Some(path) = file {
            let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
            settings.add_file(path, &text)?;
        }
        settings.add_variables(environment::settings())?;
        settings.add_flags(flags);
        Ok(settings)
    }

    /// The settings of a throwaway server that delivers to this machine, whatever the environment contains.
    pub(crate) fn throw_away(folder: &Path, key: &str) -> anyhow::Result<Settings> {
        let table = [
            ("listen", Value::from("127.0.0.1:0")),
            ("data", Value::from(folder.display().to_string())),
            ("bootstrap_key", Value::from(key)),
            ("egress_allow", Value::from(vec!["127.0.0.0/8"])),
            ("stop_delay_seconds", Value::from(0)),
            ("log_level", Value::from("warn")),
        ];
        let mut settings = Settings::defaults();
        settings.add(table.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(), |_| Source::Flag)?;
        Ok(settings)
    }

    fn defaults() -> Settings {
        let table = Settings::TEMPLATE.parse::<Table>().expect("a test parses the template");
        let mut settings = Settings { values: BTreeMap::new(), warnings: Vec::new() };
        settings.add(table, |_| Source::Default).expect("a test loads the template");
        settings
    }

    fn add_file(&mut self, path: &Path, text: &str) -> anyhow::Result<()> {
        let table = text.parse::<Table>().with_context(|| format!("{} is not valid TOML", path.display()))?;
        self.add(table, |_| Source::File(path.to_owned()))
    }

    fn add_variables(&mut self, variables: Vec<Variable>) -> anyhow::Result<()> {
        let mut table = Table::new();
        let mut names = BTreeMap::new();
        for variable in variables {
            let (name, key) = (&variable.name, variable.key());
            let Some(kind) = kind(&key) else {
                if !environment::is_service_link(&variable) {
                    self.warnings.push(unknown_variable(name, &key));
                }
                continue;
            };
            let text = variable.value.as_deref().with_context(|| format!("invalid {name}: expected UTF-8"))?;
            let value = parse(kind, text).with_context(|| format!("invalid {name} {text:?}"))?;
            table.insert(key.clone(), value);
            names.insert(key, variable.name);
        }
        self.add(table, |key| Source::Variable(names[key].clone()))
    }

    /// Problems that do not make the configuration invalid.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn add_flags(&mut self, flags: Flags) {
        let data = flags.data.map(|folder| folder.display().to_string());
        let flags = [
            ("listen", flags.listen),
            ("listen_ops", flags.listen_ops),
            ("public_url", flags.public_url),
            ("role", flags.role),
            ("data", data),
            ("database", flags.database),
        ];
        let table = flags.into_iter().filter_map(|(key, text)| Some((key.to_owned(), Value::String(text?)))).collect();
        self.add(table, |_| Source::Flag).expect("flags are texts under known keys, and clap refuses both stores");
    }

    /// Adds a layer on top. A layer that sets one store removes the other store of the layers below.
    fn add(&mut self, table: Table, source: impl Fn(&str) -> Source) -> anyhow::Result<()> {
        if table.contains_key("data") && table.contains_key("database") {
            bail!("`data` and `database` are both set ({}): remove one of them", describe(&source("database")));
        }
        for (key, value) in table {
            let source = source(&key);
            let Some((known, kind)) = KEYS.iter().find(|(known, _)| *known == key) else {
                return Err(unknown(&key, &source));
            };
            if !fits(*kind, &value) {
                bail!("invalid `{key}` ({}): expected {}", describe(&source), wanted(*kind));
            }
            match *known {
                "data" => {
                    let keys = ["database", "database_direct", "database_tenant_role"];
                    keys.iter().for_each(|key| drop(self.values.remove(key)));
                }
                "database" => drop(self.values.remove("data")),
                _ => {}
            }
            self.values.insert(known, (value, source));
        }
        Ok(())
    }

    /// Returns the effective values as TOML with their sources. Secrets are redacted.
    pub(crate) fn show(&self) -> String {
        self.redacted().map(|(key, value, source)| format!("{key} = {value} # {}\n", describe(source))).collect()
    }

    /// The same for the API.
    fn shown(&self) -> Vec<ShownSetting> {
        let setting = |(key, value, source): (&str, Value, &Source)| ShownSetting {
            name: key.to_owned(),
            value: serde_json::to_value(value).expect("the keys of a TOML table are texts"),
            source: describe(source),
        };
        self.redacted().map(setting).collect()
    }

    fn redacted(&self) -> impl Iterator<Item = (&'static str, Value, &Source)> {
        KEYS.iter().filter_map(|(key, kind)| {
            let (value, source) = self.values.get(key)?;
            let shown = match (kind, value) {
                (Kind::Secret, Value::String(secret)) if !secret.is_empty() => Value::from("(redacted)"),
                (Kind::Url, Value::String(url)) => Value::from(redact_url(url)),
                (Kind::Tables, tables) => redact_tables(tables),
                _ => value.clone(),
            };
            Some((*key, shown, source))
        })
    }
}

fn kind(key: &str) -> Option<Kind> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind)
}

fn unknown(key: &str, source: &Source) -> anyhow::Error {
    let remedy = suggest(key, &KEYS.iter().map(|(known, _)| *known).collect::<Vec<_>>());
    anyhow!("unknown setting `{key}` ({}): {remedy}", describe(source))
}

fn unknown_variable(name: &str, key: &str) -> String {
    match nearest(key, KEYS.iter().map(|(known, _)| *known)) {
        Some(known) => {
            let known = format!("{}{}", environment::PREFIX, known.to_ascii_uppercase());
            format!("unknown variable {name} is ignored: did you mean {known}?")
        }
        None => format!("unknown variable {name} is ignored: `everhook config init` prints every setting"),
    }
}

/// Returns the remedy for an unknown key.
fn suggest(key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`? Correct or remove it"),
        None => format!("correct or remove it; known settings: {}", known.join(", ")),
    }
}

fn describe(source: &Source) -> String {
    match source {
        Source::Default => "default".to_owned(),
        Source::File(path) => path.display().to_string(),
        Source::Variable(name) => name.clone(),
        Source::Flag => "flag".to_owned(),
    }
}

fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::Secret | Kind::Url => "a string",
        Kind::Number => "a whole number",
        Kind::Switch => "true or false",
        Kind::Texts => "a list of strings",
        Kind::Numbers => "a list of numbers",
        Kind::Tables => "a table `[[…]]` in the configuration file",
    }
}

fn fits(kind: Kind, value: &Value) -> bool {
    let is_number = |value: &Value| value.is_integer() || value.is_float();
    match kind {
        Kind::Text | Kind::Secret | Kind::Url => value.is_str(),
        Kind::Number => value.is_integer(),
        Kind::Switch => value.is_bool(),
        Kind::Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_str)),
        Kind::Numbers => value.as_array().is_some_and(|list| list.iter().all(is_number)),
        Kind::Tables => value.as_array().is_some_and(|list| list.iter().all(Value::is_table)),
    }
}

/// Parses the text of a variable. Commas separate the items of a list.
fn parse(kind: Kind, text: &str) -> anyhow::Result<Value> {
    let items = || text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
    let bad = || anyhow!("expected {}", wanted(kind));
    match kind {
        Kind::Text | Kind::Secret | Kind::Url => Ok(Value::from(text)),
        Kind::Number => text.trim().parse::<i64>().map(Value::from).map_err(|_| bad()),
        Kind::Switch => text.trim().parse::<bool>().map(Value::from).map_err(|_| bad()),
        Kind::Texts => Ok(Value::from(items().map(Value::from).collect::<Vec<_>>())),
        Kind::Numbers => {
            let numbers = items().map(|item| item.parse::<f64>().map(Value::from).map_err(|_| bad()));
            Ok(Value::from(numbers.collect::<anyhow::Result<Vec<_>>>()?))
        }
        Kind::Tables => Err(bad()),
    }
}

/// Removes the passwords from the URLs of tables.
fn redact_tables(tables: &Value) -> Value {
    let mut tables = tables.clone();
    for table in tables.as_array_mut().into_iter().flatten().filter_map(Value::as_table_mut) {
        if let Some(Value::String(url)) = table.get_mut("database") {
            *url = redact_url(url);
        }
    }
    tables
}

/// Removes the password from a database URL.
pub(crate) fn redact_url(url: &str) -> String {
    everhook_postgres::shown_url(url).unwrap_or_else(|| "(redacted)".to_owned())
}

#[cfg(test)]
mod tests;
