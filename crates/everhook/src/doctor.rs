//! `everhook doctor`: checks the configuration and the machine, and prints a remedy for each problem.
//!
//! Changes nothing, and may run beside a server. The rules are in `rules`; this file collects the facts.

mod rules;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use clap::Args;
use everhook_api::ServerTls;
use everhook_core::api_key::ApiKey;
use everhook_core::time::Timestamp;
use everhook_postgres::PostgresOpenError;
use everhook_sqlite::SqliteOpenError;
use everhook_store::query;
use everhook_store::seal::KeyFileError;
use everhook_store::store::Reads;
use http::{Request, Uri};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::cli::SettingsArgs;
use crate::config::{Config, Flags, StoreConfig};
use crate::doctor::rules::{Check, Disk, Keys, Port, PortUse};
use crate::exit::{Exit, Failure};
use crate::output::{Answer, FormatArgs, Part};
use crate::{environment, files, http_client, store};

/// How long a server on the configured port may take to answer.
const PORT_DEADLINE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    format: FormatArgs,
}

impl DoctorArgs {
    /// Prints one line per check. Fails if one of the checks failed; warnings are no failure.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let checks = check_all(self.settings).await;
        let failed = checks.iter().filter(|check| check.is_failed()).count();
        let text = checks.iter().map(Check::to_string).collect::<Vec<_>>().join("\n");
        let data = Value::from(checks.iter().map(Check::to_json).collect::<Vec<_>>());
        Answer::object(data, vec![Part::Line(text)]).print(self.format.format())?;
        match failed {
            0 => Ok(()),
            1 => Err(Failure::error(Exit::Failed, "1 check failed")),
            failed => Err(Failure::error(Exit::Failed, format!("{failed} checks failed"))),
        }
    }
}

/// Returns the problem and its remedy if the clock of this machine differs from that of the store.
pub(crate) fn clock_problem(store_now: Timestamp) -> Option<String> {
    rules::skew(store_now, wall_clock()).problem()
}

async fn check_all(settings: SettingsArgs) -> Vec<Check> {
    let settings = match settings.load(Flags::default()) {
        Ok(settings) => settings,
        Err(error) => return vec![rules::config(Err(&format!("{error:#}")))],
    };
    let config = match settings.check() {
        Ok(config) => config,
        Err(error) => return vec![rules::config(Err(&format!("{error:#}")))],
    };
    // No logger is started, because the store would log the problems that the checks report.
    let mut checks = vec![rules::config(Ok(settings.warnings()))];
    let is_served = check_store(&config, &mut checks).await;
    checks.extend(rules::egress(&config.egress, config.egress_proxy.as_ref()));
    checks.push(rules::open_files(files::shortage(&config)));
    for (name, address) in [("listen", Some(config.listen)), ("listen_ops", config.listen_ops)] {
        if let Some(address) = address {
            let is_encrypted = name == "listen" && config.tls.is_some();
            let used = port_use(address, is_encrypted).await;
            checks.push(rules::port(&Port { name, address, used }, is_served));
        }
    }
    if let Some(files) = &config.tls {
        checks.push(rules::tls(ServerTls::load(files.clone()).map(drop)));
    }
    checks
}

/// Checks the store, and its content if it can be opened. Returns whether a server uses it on this machine.
async fn check_store(config: &Config, checks: &mut Vec<Check>) -> bool {
    let now = wall_clock();
    let (usable, is_served) = match &config.store {
        StoreConfig::Sqlite { folder } => match everhook_sqlite::examine(folder) {
            Ok(facts) => {
                checks.extend(rules::sqlite(folder, &facts, now));
                checks.push(rules::disk(folder, disk(folder)));
                (facts.schema.is_some_and(|(found, known)| found == known), facts.server.is_some())
            }
            Err(error) => {
                checks.push(rules::store_failed(&format!("{:#}", anyhow::Error::new(error))));
                checks.push(rules::disk(folder, disk(folder)));
                (false, false)
            }
        },
        StoreConfig::Postgres { url, direct_url, pool_size, .. } => {
            match everhook_postgres::examine(&direct_url.as_ref().unwrap_or(url).0).await {
                Ok(facts) => {
                    checks.extend(rules::postgres(&facts, *pool_size, config.auto_migrate, now));
                    (facts.refused.is_none() && facts.schema.0 == facts.schema.1, false)
                }
                Err(error) => {
                    let is_unreachable = matches!(error, PostgresOpenError::Connect { .. });
                    let (may_pass, error) = (error.may_pass(), format!("{:#}", anyhow::Error::new(error)));
                    checks.push(match is_unreachable {
                        true => rules::unreachable(&error, may_pass),
                        false => rules::store_failed(&error),
                    });
                    (false, false)
                }
            }
        }
    };
    if usable {
        match content(config).await {
            Ok(found) => checks.extend(found),
            Err(error) => checks.push(match key_remedy(&error) {
                Some(remedy) => rules::secrets_failed(&error.to_string(), remedy),
                None => rules::store_failed(&format!("{error:#}")),
            }),
        }
    }
    is_served
}

/// Returns the remedy if a store did not open because of the keys that seal its secrets.
fn key_remedy(error: &anyhow::Error) -> Option<&'static str> {
    let of_sqlite = || error.downcast_ref().and_then(SqliteOpenError::key_remedy);
    let of_postgres = || error.downcast_ref().and_then(PostgresOpenError::key_remedy);
    error.downcast_ref().map(KeyFileError::remedy).or_else(of_sqlite).or_else(of_postgres)
}

/// Checks the keys and the pause of egress, which are in the store.
async fn content(config: &Config) -> anyhow::Result<Vec<Check>> {
    let opened = store::open_beside(config).await?;
    let keys = opened.store.read(query::Keys {}).await?;
    let pause = opened.store.read(query::FindEgressPause {}).await?;
    let is_known = match &config.bootstrap_key {
        Some(key) => opened.store.read(query::FindKey { hash: key.hash() }).await?.is_some(),
        None => true,
    };
    let needed = opened.needed_keys().await?;
    let now = opened.store.now().await?;
    let is_client_known = match environment::remote().key.as_deref().map(str::parse::<ApiKey>) {
        None => None,
        Some(Err(_)) => Some(false),
        Some(Ok(key)) => {
            let found = opened.store.read(query::FindKey { hash: key.hash() }).await?;
            Some(found.is_some_and(|key| key.is_active(now)))
        }
    };
    opened.close().await;
    let active = keys.iter().filter(|key| key.is_active(now)).count();
    let keys = Keys { active, total: keys.len(), is_bootstrap_known: is_known };
    let mut checks = vec![rules::keys(&keys)];
    checks.extend(is_client_known.map(rules::client_key));
    checks.extend([rules::secrets(&needed, &config.secrets), rules::pause(pause.as_ref())]);
    Ok(checks)
}

/// The free space of the disk with the folder, or with the folder that it is going to be created in.
fn disk(folder: &Path) -> Option<Disk> {
    let folder = std::path::absolute(folder).ok()?;
    let existing = folder.ancestors().find(|folder| folder.is_dir())?;
    let found = rustix::fs::statvfs(existing).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Disk { free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
}

/// Finds out who uses a port, by listening on it and by asking the server there for its health.
async fn port_use(address: SocketAddr, is_encrypted: bool) -> PortUse {
    match tokio::net::TcpListener::bind(address).await {
        Ok(_) => PortUse::Free,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            // The certificate is for another name than the address, so the server there cannot be verified.
            if is_encrypted {
                PortUse::Encrypted
            } else if is_everhook(address).await {
                PortUse::Everhook
            } else {
                PortUse::Other
            }
        }
        Err(error) => PortUse::Refused(error.to_string()),
    }
}

async fn is_everhook(address: SocketAddr) -> bool {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let Ok(url) = format!("http://{address}/api/v1/health").parse::<Uri>() else { return false };
    let request = Request::get("/api/v1/health").header("host", address.to_string()).body(Full::new(Bytes::new()));
    let Ok(request) = request else { return false };
    let reply = tokio::time::timeout(PORT_DEADLINE, http_client::send(&url, request)).await;
    matches!(reply, Ok(Ok(reply)) if reply.status() == http::StatusCode::NO_CONTENT)
}

#[expect(clippy::disallowed_methods, reason = "the check compares the clock of this machine with others")]
fn wall_clock() -> Timestamp {
    Timestamp::default().plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl Check {
    fn to_json(&self) -> Value {
        json!({ "check": self.name, "state": self.state.as_str(), "found": self.found, "remedy": self.remedy })
    }
}
