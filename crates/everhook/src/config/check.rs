//! Checks settings and builds the [`Config`]. Every error names the key and the remedy.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use everhook_api::{CONNECTIONS_MAX, TlsFiles};
use everhook_core::api_key::ApiKey;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::limits::PUSH_TIMEOUT_MAX;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::seal::SealRing;
use everhook_core::signing::SignatureKind;
use everhook_engine::config::JobsConfig;
use everhook_engine::retention::Ages;
use everhook_sender::{Egress, HostPattern, Proxy};
use everhook_sqlite::SealSource;
use http::{HeaderValue, Uri};
use ipnet::IpNet;
use toml::Value;
use tracing_subscriber::filter::Targets;

use crate::config::{Config, LogFormat, Otlp, Secret, Settings, StoreConfig, describe, outboxes};
use crate::logging;

/// HS256 requires a key at least as long as its hash: a shorter one can be guessed from one token.
const JWT_SECRET_BYTES_MIN: usize = 32;

pub(crate) fn check_url(url: &str) -> anyhow::Result<()> {
    if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
        bail!("expected a URL that starts with postgres://");
    }
    Ok(everhook_postgres::check_url(url)?)
}

impl Settings {
    pub(crate) fn check(&self) -> anyhow::Result<Config> {
        let slots = self.number("slots", 1..=100_000)?;
        let slots_per_lane = self.number("slots_per_endpoint", 1..=100_000)?;
        if slots_per_lane > slots {
            bail!("`slots_per_endpoint` is {slots_per_lane} but `slots` is {slots}: lower `slots_per_endpoint`");
        }
        let timeout = self.seconds("timeout_seconds", 1..=3600)?;
        let connect_timeout = self.seconds("connect_timeout_seconds", 1..=3600)?;
        if connect_timeout > timeout {
            bail!("`connect_timeout_seconds` is larger than `timeout_seconds`, which includes it: lower it");
        }
        let poll_interval = Duration::from_millis(self.number("poll_interval_ms", 10..=3_600_000)? as u64);
        let store = self.store()?;
        Ok(Config {
            role: self.role(&store)?,
            store,
            wakeups: self.switch("wakeups"),
            listen: self.parsed("listen", "an address and port, such as 127.0.0.1:8071")?,
            listen_ops: self.listen_ops()?,
            tls: self.tls()?,
            public_url: self.public_url()?,
            embed_origins: self.origins("embed_origins")?,
            cors_origins: self.cors_origins()?,
            chat_hosts: self.chat_hosts()?,
            connections_per_address: self.number("connections_per_address", 1..=CONNECTIONS_MAX)?,
            trusted_proxies: self.networks("trusted_proxies")?,
            auth_failures_per_minute: self.number("auth_failures_per_minute", 0..=1_000_000)? as u32,
            database_wait: self.seconds("database_wait_seconds", 0..=86_400)?,
            auto_migrate: self.switch("auto_migrate"),
            dispatch: DispatchConfig { slots, slots_per_lane, poll_interval },
            lease: self.seconds("lease_seconds", 1..=3600)?,
            retry: self.retry()?,
            timeout,
            connect_timeout,
            stop_delay: self.seconds("stop_delay_seconds", 0..=3600)?,
            alert_interval: self.seconds("alert_interval_seconds", 1..=300)?,
            grace: self.seconds("grace_seconds", 0..=3600)?,
            jobs: self.jobs()?,
            retention: self.retention()?,
            egress: self.egress()?,
            egress_proxy: self.egress_proxy()?,
            default_signature: match self.text("default_signature") {
                Some("hmac256") => SignatureKind::Hmac256,
                Some("ed25519") => SignatureKind::Ed25519,
                other => bail!("invalid `default_signature` {:?}: use hmac256 or ed25519", other.unwrap_or_default()),
            },
            jwt_secret: self.jwt_secret()?,
            secrets: self.secrets()?,
            bootstrap_key: self.bootstrap_key()?,
            outboxes: outboxes::check(self.list("outbox"))?,
            shown: self.shown(),
            otlp: self.otlp()?,
            log_filter: self.log_filter()?,
            log_format: match self.text("log_format") {
                Some("json") => LogFormat::Json,
                Some("text") => LogFormat::Text,
                other => bail!("invalid `log_format` {:?}: use text or json", other.unwrap_or_default()),
            },
        })
    }

    fn listen_ops(&self) -> anyhow::Result<Option<SocketAddr>> {
        if self.text("listen_ops").is_none_or(str::is_empty) {
            return Ok(None);
        }
        let listen_ops: SocketAddr =
            self.parsed("listen_ops", "an address and port, such as 127.0.0.1:8072, or nothing")?;
        if listen_ops.port() != 0 && self.text("listen") == self.text("listen_ops") {
            bail!("`listen_ops` equals `listen`, which already serves health and metrics: use another port");
        }
        Ok(Some(listen_ops))
    }

    fn tls(&self) -> anyhow::Result<Option<TlsFiles>> {
        let path = |key: &str| self.text(key).map(str::trim).filter(|text| !text.is_empty()).map(PathBuf::from);
        match (path("tls_certificate"), path("tls_key")) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => bail!("`tls_certificate` is set but `tls_key` is not: set both or none"),
            (None, Some(_)) => bail!("`tls_key` is set but `tls_certificate` is not: set both or none"),
        }
    }

    fn public_url(&self) -> anyhow::Result<Option<String>> {
        let Some(url) = self.text("public_url").map(str::trim).filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or_default();
        let is_odd = |char: char| char.is_whitespace() || char.is_control() || "?#@\"<>\\".contains(char);
        if rest.is_empty() || rest.starts_with('/') || rest.contains(is_odd) {
            let source = self.source("public_url");
            bail!("invalid `public_url` {url:?} ({source}): use the form https://hooks.example.com");
        }
        Ok(Some(url.trim_end_matches('/').to_owned()))
    }

    fn cors_origins(&self) -> anyhow::Result<Vec<String>> {
        match self.list("cors_origins") {
            [only] if only.as_str() == Some("*") => Ok(vec!["*".to_owned()]),
            listed => {
                // A browser sends the exact origin, so a pattern would never match.
                if let Some(pattern) = listed.iter().filter_map(Value::as_str).find(|origin| origin.contains('*')) {
                    let source = self.source("cors_origins");
                    bail!(
                        "invalid origin {pattern:?} in `cors_origins` ({source}): use complete origins, or only \"*\""
                    );
                }
                self.origins("cors_origins")
            }
        }
    }

    fn origins(&self, key: &str) -> anyhow::Result<Vec<String>> {
        let check = |origin: &str| {
            let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://")).unwrap_or_default();
            // Other characters could end the header's list, or add directives to it.
            let is_plain = |char: char| char.is_ascii_alphanumeric() || "-.:*[]".contains(char);
            if rest.is_empty() || !rest.chars().all(is_plain) {
                let source = self.source(key);
                bail!("invalid origin {origin:?} in `{key}` ({source}): use the form https://app.example.com");
            }
            Ok(origin.to_owned())
        };
        self.list(key).iter().filter_map(Value::as_str).map(check).collect()
    }

    fn chat_hosts(&self) -> anyhow::Result<Vec<String>> {
        let check = |host: &str| {
            let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "-.:[]".contains(char);
            if host.trim_matches('.').is_empty() || !host.chars().all(is_plain) {
                let source = self.source("chat_hosts");
                bail!("invalid host {host:?} in `chat_hosts` ({source}): use a name such as chat.example.com");
            }
            Ok(host.to_owned())
        };
        self.list("chat_hosts").iter().filter_map(Value::as_str).map(check).collect()
    }

    fn store(&self) -> anyhow::Result<StoreConfig> {
        let pool_size = self.number("database_pool", 4..=1000)?;
        let (direct_url, tenant_role) = (self.url("database_direct")?, self.tenant_role()?);
        let Some(url) = self.url("database")? else {
            if direct_url.is_some() {
                let source = self.source("database_direct");
                bail!("`database_direct` is set ({source}) but `database` is not: set `database`, or remove this");
            }
            if tenant_role.is_some() {
                let source = self.source("database_tenant_role");
                bail!("`database_tenant_role` is set ({source}) but `database` is not: set `database`, or remove this");
            }
            let folder = self.text("data").filter(|folder| !folder.is_empty());
            let folder = folder.context("`data` is empty: set it to a folder, or set `database`")?.into();
            return Ok(StoreConfig::Sqlite { folder });
        };
        let (url, direct_url, pooler) = (Secret(url), direct_url.map(Secret), self.switch("database_pooler"));
        if pooler && tenant_role.is_some() {
            let source = self.source("database_tenant_role");
            bail!("`database_tenant_role` ({source}) needs connections with settings: it cannot be used with a pooler");
        }
        Ok(StoreConfig::Postgres { url, direct_url, pool_size, pooler, tenant_role })
    }

    fn tenant_role(&self) -> anyhow::Result<Option<String>> {
        let Some(role) = self.text("database_tenant_role").filter(|role| !role.is_empty()) else { return Ok(None) };
        let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
        if !role.chars().all(is_plain) {
            let source = self.source("database_tenant_role");
            bail!("invalid `database_tenant_role` ({source}): use lower-case letters, digits and underscores");
        }
        Ok(Some(role.to_owned()))
    }

    fn url(&self, key: &str) -> anyhow::Result<Option<String>> {
        let Some(url) = self.text(key) else { return Ok(None) };
        check_url(url).with_context(|| format!("invalid `{key}` ({})", self.source(key)))?;
        Ok(Some(url.to_owned()))
    }

    fn log_filter(&self) -> anyhow::Result<Targets> {
        let text = self.text("log_level").unwrap_or_default();
        logging::filter(text).with_context(|| format!("invalid `log_level` {text:?} ({})", self.source("log_level")))
    }

    fn role(&self, store: &StoreConfig) -> anyhow::Result<Role> {
        let role = self.parsed("role", "all, api or worker")?;
        if let (Role::Api | Role::Worker, StoreConfig::Sqlite { .. }) = (role, store) {
            let source = self.source("role");
            bail!(
                "`role` is {role} ({source}) but the store is embedded and belongs to a single node: \
                  use the role all, or set `database` to a PostgreSQL that all nodes share"
            );
        }
        Ok(role)
    }

    fn retry(&self) -> anyhow::Result<RetryPolicy> {
        if self.list("retry_schedule").is_empty() {
            let source = self.source("retry_schedule");
            bail!("`retry_schedule` is empty ({source}): list the seconds before each retry, such as 5,300,1800");
        }
        let delays = self.list("retry_schedule").iter().map(|value| {
            let secs = value.as_float().or_else(|| value.as_integer().map(|secs| secs as f64)).unwrap_or(-1.0);
            Duration::try_from_secs_f64(secs).with_context(|| format!("invalid delay {value} in `retry_schedule`"))
        });
        let delays = delays.collect::<anyhow::Result<_>>()?;
        RetryPolicy::new(delays)
            .with_context(|| format!("invalid `retry_schedule` ({})", self.source("retry_schedule")))
    }

    fn jobs(&self) -> anyhow::Result<JobsConfig> {
        let slots = self.number("job_slots", 1..=100_000)?;
        let slots_per_queue = if self.is_set("job_slots_per_queue") {
            self.number("job_slots_per_queue", 1..=100_000)?
        } else {
            JobsConfig::slots_per_queue(slots)
        };
        if slots_per_queue > slots {
            bail!("`job_slots_per_queue` is {slots_per_queue} but `job_slots` is {slots}: lower `job_slots_per_queue`");
        }
        Ok(JobsConfig {
            enabled: self.switch("jobs"),
            schedules: self.switch("schedules"),
            slots,
            slots_per_queue,
            ahead: self.number("job_ahead", 0..=100_000)?,
            push_timeout: self.seconds("job_push_timeout_seconds", 1..=PUSH_TIMEOUT_MAX.as_secs() as usize)?,
            handlers: None,
        })
    }

    /// A number of bytes such as "50GB"; none if it is empty.
    fn bytes(&self, key: &str) -> anyhow::Result<Option<u64>> {
        let Some(text) = self.text(key).map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
        let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic() || char == ' ');
        let unit = match text[digits.len()..].trim().to_ascii_uppercase().as_str() {
            "" | "B" => Some(1),
            "MB" => Some(1_000_000),
            "GB" => Some(1_000_000_000),
            "TB" => Some(1_000_000_000_000),
            _ => None,
        };
        let bytes = digits.parse::<u64>().ok().zip(unit).and_then(|(count, unit)| count.checked_mul(unit));
        match bytes.filter(|bytes| *bytes > 0) {
            Some(bytes) => Ok(Some(bytes)),
            None => bail!("invalid `{key}` {text:?} ({}): use a size such as 50GB, or nothing", self.source(key)),
        }
    }

    fn retention(&self) -> anyhow::Result<Ages> {
        let days = |key: &str| anyhow::Ok(Duration::from_secs(self.number(key, 1..=36_500)? as u64 * 24 * 3600));
        Ok(Ages {
            messages: days("keep_messages_days")?,
            dead_deliveries: days("keep_dead_deliveries_days")?,
            once_slots: days("keep_once_slots_days")?,
            jobs: days("keep_jobs_days")?,
            batches: days("keep_batches_days")?,
            runs: days("keep_runs_days")?,
            sessions: days("keep_sessions_days")?,
            bytes_max: self.bytes("keep_bytes_max")?,
        })
    }

    fn egress(&self) -> anyhow::Result<Egress> {
        Ok(Egress {
            allow: self.networks("egress_allow")?,
            deny: self.networks("egress_deny")?,
            ports: self.ports()?,
            hosts: self.hosts()?,
            https_only: self.switch("https_only"),
            nat64: self.switch("egress_nat64"),
            own: Vec::new(),
        })
    }

    fn networks(&self, key: &str) -> anyhow::Result<Vec<IpNet>> {
        let networks = self.list(key).iter().filter_map(Value::as_str).map(|text| {
            let address = || text.parse::<std::net::IpAddr>().map(IpNet::from);
            text.parse::<IpNet>().or_else(|_| address()).map_err(|_| {
                anyhow::anyhow!("invalid network {text:?} in `{key}`: use the form 10.0.0.0/8 or fd00::/8")
            })
        });
        networks.collect()
    }

    fn otlp(&self) -> anyhow::Result<Option<Otlp>> {
        let share: f64 = self.parsed("trace_share", "a number from 0 to 1, such as 0.1")?;
        if !(0.0..=1.0).contains(&share) {
            bail!("invalid `trace_share` {share} ({}): use a number from 0 to 1", self.source("trace_share"));
        }
        let authorization = self.text("otlp_authorization").filter(|text| !text.is_empty());
        if authorization.is_some_and(|text| HeaderValue::from_str(text).is_err()) {
            bail!("invalid `otlp_authorization`: it must be the value of an HTTP header, such as \"Bearer …\"");
        }
        let authorization = authorization.map(|text| Secret(text.to_owned()));
        let Some(url) = self.text("otlp_url").map(str::trim).filter(|url| !url.is_empty()) else { return Ok(None) };
        let parsed = url.parse::<Uri>().ok();
        let is_valid = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some();
        match parsed.filter(is_valid).filter(|url| !url.authority().is_some_and(|it| it.as_str().contains('@'))) {
            Some(url) => Ok(Some(Otlp { url, authorization, share })),
            None => bail!(
                "invalid `otlp_url` ({}): use the form http://localhost:4318, without user and password",
                self.source("otlp_url")
            ),
        }
    }

    fn ports(&self) -> anyhow::Result<Vec<u16>> {
        let ports = self.list("egress_ports").iter().map(|value| {
            // Variables contain floats.
            let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64)).unwrap_or(-1.0);
            let is_port = number.fract() == 0.0 && (1.0..=65_535.0).contains(&number);
            is_port.then_some(number as u16).with_context(|| {
                format!("invalid port {value} in `egress_ports` ({}): use 1 to 65535", self.source("egress_ports"))
            })
        });
        ports.collect()
    }

    fn hosts(&self) -> anyhow::Result<Vec<HostPattern>> {
        let hosts = self.list("egress_hosts").iter().filter_map(Value::as_str).map(|text| {
            text.parse::<HostPattern>().with_context(|| format!("invalid host {text:?} in `egress_hosts`"))
        });
        hosts.collect()
    }

    fn egress_proxy(&self) -> anyhow::Result<Option<Proxy>> {
        let resolves = self.switch("egress_proxy_resolves");
        let Some(text) = self.text("egress_proxy").map(str::trim).filter(|text| !text.is_empty()) else {
            if resolves {
                let source = self.source("egress_proxy_resolves");
                bail!("`egress_proxy_resolves` is set ({source}) but `egress_proxy` is not: set both or none");
            }
            return Ok(None);
        };
        // The URL may have a password, so the error does not repeat it.
        let proxy = text.parse::<Proxy>();
        let proxy = proxy.with_context(|| format!("invalid `egress_proxy` ({})", self.source("egress_proxy")))?;
        Ok(Some(proxy.resolving(resolves)))
    }

    fn jwt_secret(&self) -> anyhow::Result<Option<Secret>> {
        match self.text("jwt_secret") {
            None | Some("") => Ok(None),
            Some(secret) if secret.len() < JWT_SECRET_BYTES_MIN => bail!(
                "`jwt_secret` is too short: use at least {JWT_SECRET_BYTES_MIN} bytes, such as the output of \
                 `openssl rand -base64 32`"
            ),
            Some(secret) => Ok(Some(Secret(secret.to_owned()))),
        }
    }

    fn secrets(&self) -> anyhow::Result<SealSource> {
        let set = |key: &str| self.text(key).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        match (set("secrets_key_file"), set("secrets_keys")) {
            (Some(_), Some(_)) => bail!("`secrets_key_file` and `secrets_keys` are both set: remove one of them"),
            (Some(file), None) => Ok(SealSource::File(file.into())),
            (None, Some(keys)) => {
                let lines = keys.replace([',', ' '], "\n");
                let ring = SealRing::parse(&lines).with_context(|| {
                    let source = self.source("secrets_keys");
                    format!("invalid `secrets_keys` ({source}): use the output of `everhook secrets generate`")
                })?;
                Ok(SealSource::Ring(ring))
            }
            (None, None) => Ok(SealSource::Folder),
        }
    }

    fn bootstrap_key(&self) -> anyhow::Result<Option<ApiKey>> {
        let Some(text) = self.text("bootstrap_key").map(str::trim).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let key = text.parse().with_context(|| {
            let source = self.source("bootstrap_key");
            format!("invalid `bootstrap_key` ({source}): use the output of `everhook key generate`")
        })?;
        Ok(Some(key))
    }

    fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).and_then(|(value, _)| value.as_str())
    }

    fn list(&self, key: &str) -> &[Value] {
        self.values.get(key).and_then(|(value, _)| value.as_array()).map_or(&[], Vec::as_slice)
    }

    fn switch(&self, key: &str) -> bool {
        self.values.get(key).and_then(|(value, _)| value.as_bool()).unwrap_or(false)
    }

    fn parsed<T: std::str::FromStr>(&self, key: &str, form: &str) -> anyhow::Result<T> {
        let text = self.text(key).unwrap_or_default();
        text.parse().map_err(|_| anyhow::anyhow!("invalid `{key}` {text:?} ({}): use {form}", self.source(key)))
    }

    fn number(&self, key: &str, range: std::ops::RangeInclusive<usize>) -> anyhow::Result<usize> {
        let value = self.values.get(key).and_then(|(value, _)| value.as_integer());
        let number = value.and_then(|value| usize::try_from(value).ok()).filter(|number| range.contains(number));
        number.with_context(|| {
            let (value, source) = (value.unwrap_or_default(), self.source(key));
            format!("invalid `{key}` {value} ({source}): use {} to {}", range.start(), range.end())
        })
    }

    fn seconds(&self, key: &str, range: std::ops::RangeInclusive<usize>) -> anyhow::Result<Duration> {
        Ok(Duration::from_secs(self.number(key, range)? as u64))
    }

    fn source(&self, key: &str) -> String {
        self.values.get(key).map_or_else(String::new, |(_, source)| describe(source))
    }
}
