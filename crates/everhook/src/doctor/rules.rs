//! Rules about the facts: the state of each check, and the remedy. Pure.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use everhook_api::BadServerTls;
use everhook_core::egress::EgressPause;
use everhook_core::seal::{NeededKey, current};
use everhook_core::time::Timestamp;
use everhook_postgres::PostgresFacts;
use everhook_sender::{Egress, HostPattern, Proxy};
use everhook_sqlite::{SealSource, SqliteFacts};
use ipnet::IpNet;

use crate::files::Shortage;
use crate::progress::bytes;

/// Receivers refuse signatures whose time differs by more than five minutes. A smaller difference is a warning.
const SKEW_WARN: Duration = Duration::from_secs(5);
const SKEW_FAIL: Duration = Duration::from_secs(240);
const DISK_FAIL_BYTES: u64 = 100 << 20;
const DISK_WARN_BYTES: u64 = 1 << 30;
/// Connections of a replica besides its pool: one for heartbeats and two for wake-ups.
const CONNECTIONS_BESIDE_POOL: usize = 3;
/// The oldest version of PostgreSQL that the project behind it maintains.
const POSTGRES_VERSION_MIN: i32 = 14_00_00;
/// The addresses where clouds offer the credentials of a machine.
const METADATA_SERVICES: [&str; 2] = ["169.254.169.254", "fd00:ec2::254"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    pub(super) remedy: Option<String>,
}

impl Check {
    pub(super) fn is_failed(&self) -> bool {
        self.state == State::Fail
    }

    /// A warning or failure as one line for a log.
    pub(super) fn problem(&self) -> Option<String> {
        self.remedy.as_ref().map(|remedy| format!("{}: {remedy}", self.found))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<4}  {:<12}  {}", self.state.as_str(), self.name, self.found)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n{:20}→ {remedy}", ""),
            None => Ok(()),
        }
    }
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, state: State::Ok, found: found.into(), remedy: None }
}

fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name, state: State::Warn, found: found.into(), remedy: Some(remedy.into()) }
}

fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name, state: State::Fail, found: found.into(), remedy: Some(remedy.into()) }
}

/// The configuration is valid, perhaps with warnings, or has an error that names its remedy.
pub(super) fn config(result: Result<&[String], &str>) -> Check {
    match result {
        Ok([]) => ok("config", "valid"),
        Ok(warnings) => warn("config", warnings.join("; "), "correct or remove these variables"),
        Err(error) => fail("config", error, "`everhook config init` prints every setting with its default"),
    }
}

/// The errors of the stores contain their remedies.
pub(super) fn store_failed(error: &str) -> Check {
    let (found, remedy) = error.split_once(": ").unwrap_or((error, "see the log of the database"));
    fail("store", found, remedy)
}

/// A database that does not answer, or that refuses the connection. `may_pass` tells whether servers keep trying.
pub(super) fn unreachable(error: &str, may_pass: bool) -> Check {
    let remedy = if may_pass {
        "start the database, or correct `database` (EVERHOOK_DATABASE): servers wait for it and lose nothing"
    } else {
        "correct the user, the password and the name of the database in `database` (EVERHOOK_DATABASE)"
    };
    fail("store", error, remedy)
}

/// The keys that seal secrets are missing or wrong. Most error texts end with their remedy, which is not shown twice.
pub(super) fn secrets_failed(error: &str, remedy: &'static str) -> Check {
    let found = error.strip_suffix(remedy).and_then(|found| found.strip_suffix(": ")).unwrap_or(error);
    fail("secrets", found, remedy)
}

pub(super) fn sqlite(folder: &Path, facts: &SqliteFacts, now: Timestamp) -> Vec<Check> {
    let shown = folder.display();
    let mut checks = vec![match (&facts.file, facts.server) {
        (None, _) => ok("store", format!("{shown} has no store yet: the first start creates it")),
        (Some(file), None) => ok("store", format!("{} ({}), no server runs", file.display(), bytes(facts.bytes))),
        (Some(file), Some(pid)) => {
            ok("store", format!("{} ({}), served by process {pid}", file.display(), bytes(facts.bytes)))
        }
    }];
    if let Some(mode) = facts.mode.filter(|mode| mode & 0o077 != 0) {
        let found = format!("other users may read {shown} (mode {mode:o}), which holds payloads and secrets");
        checks.push(warn("permissions", found, format!("run `chmod -R go= {shown}`")));
    }
    if let Some((found, known)) = facts.schema {
        checks.push(schema(found, known, "the next start of the server migrates it"));
        checks.push(ok("durability", "synchronous = full: every commit is on disk before it is acknowledged"));
    }
    if let Some(changed_at) = facts.changed_at {
        let ahead = changed_at.since(now);
        checks.push(if ahead > SKEW_WARN {
            let found = format!("the clock is {} s behind the last change of the store", ahead.as_secs());
            warn("clock", found, "synchronise the clock (`timedatectl status`): receivers check the time of signatures")
        } else {
            ok("clock", format!("{now}, not before the last change of the store"))
        });
    }
    checks
}

pub(super) fn postgres(facts: &PostgresFacts, pool: usize, auto_migrate: bool, now: Timestamp) -> Vec<Check> {
    let PostgresFacts { address, version, .. } = facts;
    let mut checks = vec![if facts.is_standby {
        fail(
            "store",
            format!("{address} is a standby and accepts no writes"),
            "name the primary, or all hosts, in `database`",
        )
    } else if facts.version_number < POSTGRES_VERSION_MIN {
        let found = format!("{address} runs PostgreSQL {version}, which gets no more fixes");
        warn("store", found, "upgrade it; Everhook is tested with version 15")
    } else {
        ok("store", format!("{address} answers, PostgreSQL {version}"))
    }];
    checks.push(match (&facts.refused, facts.schema) {
        (Some(refused), _) => store_failed(refused),
        (None, (0, _)) if auto_migrate => ok("schema", "none yet: the first start creates it"),
        (None, (0, _)) => warn("schema", "none yet, and `auto_migrate` is off", "run `everhook migrate`"),
        (None, (found, known)) => {
            let remedy = if auto_migrate { "the next start of a server migrates it" } else { "run `everhook migrate`" };
            schema(i64::from(found), i64::from(known), remedy)
        }
    });
    checks.push(durability(facts));
    checks.push(skew(facts.now, now));
    checks.push(connections(facts, pool));
    checks
}

fn schema(found: i64, known: i64, remedy: &str) -> Check {
    if found < known {
        return warn("schema", format!("version {found}, this binary knows {known}"), remedy);
    }
    ok("schema", format!("version {found}"))
}

fn durability(facts: &PostgresFacts) -> Check {
    let off = [
        ("fsync", facts.fsync),
        ("full_page_writes", facts.full_page_writes),
        ("synchronous_commit", facts.synchronous_commit != "off"),
    ];
    let off: Vec<_> = off.iter().filter(|(_, is_on)| !is_on).map(|(name, _)| *name).collect();
    if !off.is_empty() {
        let found = format!("{} is off: a crash could lose accepted messages, and no server starts", off.join(", "));
        return fail("durability", found, "turn it on in postgresql.conf and reload PostgreSQL");
    }
    let (commit, standbys) = (&facts.synchronous_commit, &facts.synchronous_standby_names);
    match (commit.as_str(), standbys.as_str()) {
        (_, "") => ok("durability", format!("fsync = on, synchronous_commit = {commit}, no synchronous standby")),
        ("local", _) => warn(
            "durability",
            "synchronous_commit = local does not wait for the synchronous standby",
            "set synchronous_commit = on, so that a failover loses nothing",
        ),
        _ => ok("durability", format!("fsync = on, synchronous_commit = {commit}, synchronous standby: {standbys}")),
    }
}

/// Compares the clock of the database, which all due times follow, with the clock that signs requests.
pub(super) fn skew(database: Timestamp, here: Timestamp) -> Check {
    let (apart, side) = match (here.since(database), database.since(here)) {
        (behind, ahead) if behind > ahead => (behind, "ahead of"),
        (_, ahead) => (ahead, "behind"),
    };
    let found = format!("this machine is {:.1} s {side} the database", apart.as_secs_f64());
    let remedy =
        "synchronise both clocks (`timedatectl status`): receivers refuse signatures that are five minutes off";
    match apart {
        apart if apart >= SKEW_FAIL => fail("clock", found, remedy),
        apart if apart >= SKEW_WARN => warn("clock", found, remedy),
        _ => ok("clock", found),
    }
}

fn connections(facts: &PostgresFacts, pool: usize) -> Check {
    let (max, used) = (facts.connections_max, facts.connections_used);
    let needed = pool + CONNECTIONS_BESIDE_POOL;
    let found = format!("{used} of {max} are in use, a replica needs {needed}");
    let left = usize::try_from(max - used).unwrap_or(0);
    if left < needed {
        return warn("connections", found, "raise max_connections, lower `database_pool`, or use a pooler");
    }
    ok("connections", found)
}

pub(super) struct Disk {
    pub(super) free: u64,
    pub(super) total: u64,
}

pub(super) fn disk(folder: &Path, disk: Option<Disk>) -> Check {
    let Some(Disk { free, total }) = disk else {
        return warn("disk", format!("the free space of {} is unknown", folder.display()), "look at `df`");
    };
    let found = format!("{} of {} are free", bytes(free), bytes(total));
    let remedy = "make room or move the folder: without space the server refuses new messages, and loses none";
    match free {
        free if free < DISK_FAIL_BYTES => fail("disk", found, remedy),
        free if free < DISK_WARN_BYTES || free < total / 20 => warn("disk", found, remedy),
        _ => ok("disk", found),
    }
}

pub(super) fn egress(rules: &Egress, proxy: Option<&Proxy>) -> Vec<Check> {
    let metadata = METADATA_SERVICES.map(|address| address.parse::<std::net::IpAddr>().expect("the constant is one"));
    let wide = rules.allow.iter().find(|network| metadata.iter().any(|address| network.contains(address)));
    if let Some(network) = wide {
        return vec![warn(
            "egress",
            format!("`egress_allow` has {network}, which contains the metadata service of cloud machines"),
            "allow smaller networks: an endpoint could read the credentials of this machine",
        )];
    }
    let join = |list: Vec<String>| list.join(", ");
    let mut found = "public addresses".to_owned();
    match &*rules.allow {
        [] => found += " only",
        allow => found += &format!(" and {}", join(allow.iter().map(IpNet::to_string).collect())),
    }
    if !rules.deny.is_empty() {
        found += &format!(" without {}", join(rules.deny.iter().map(IpNet::to_string).collect()));
    }
    if !rules.hosts.is_empty() {
        found += &format!(", hosts {}", join(rules.hosts.iter().map(HostPattern::to_string).collect()));
    }
    if !rules.ports.is_empty() {
        found += &format!(", ports {}", join(rules.ports.iter().map(u16::to_string).collect()));
    }
    found += if rules.https_only { ", https only" } else { ", http and https" };
    match proxy {
        Some(proxy) if proxy.resolves() => found += ", through a proxy that must check the addresses of names",
        Some(_) => found += ", through a proxy",
        None => {}
    }
    vec![ok("egress", found)]
}

pub(super) fn pause(pause: Option<&EgressPause>) -> Check {
    match pause {
        Some(EgressPause { since, reason }) => warn(
            "pause",
            format!("egress is paused since {since}: {reason}"),
            "`everhook egress resume` sends the waiting deliveries",
        ),
        None => ok("pause", "egress is not paused"),
    }
}

pub(super) struct Keys {
    pub(super) active: usize,
    pub(super) total: usize,
    /// The configured first key is one of them, or none is configured.
    pub(super) is_bootstrap_known: bool,
}

pub(super) fn keys(keys: &Keys) -> Check {
    match keys {
        Keys { total: 0, .. } => ok("keys", "none yet: the first start creates one"),
        Keys { active: 0, .. } => fail("keys", "all keys are revoked or expired", "run `everhook key create`"),
        Keys { active, is_bootstrap_known: false, .. } => warn(
            "keys",
            format!("{active} active, and `bootstrap_key` is not one of them"),
            "remove `bootstrap_key`: only an empty store uses it",
        ),
        Keys { active, .. } => ok("keys", format!("{active} active")),
    }
}

/// The key in EVERHOOK_KEY, which the client commands use. It may belong to another server.
pub(super) fn client_key(is_known: bool) -> Check {
    match is_known {
        true => ok("client key", "EVERHOOK_KEY is an active key of this store"),
        false => warn(
            "client key",
            "EVERHOOK_KEY is not an active key of this store",
            "`everhook key list` shows the keys and `everhook key create` makes one, unless it is for another server",
        ),
    }
}

/// The keys of secrets of a store that opens; `secrets_failed` is about a missing or wrong key.
pub(super) fn secrets(needed: &[NeededKey], source: &SealSource) -> Check {
    match (current(needed), needed.len(), source) {
        (Some(key), 1, _) => ok("secrets", format!("sealed with the key {key}")),
        (Some(key), _, _) => warn(
            "secrets",
            format!("a rotation to the key {key} has not ended"),
            "run `everhook secrets rotate`, and keep the old keys until then",
        ),
        (None, _, SealSource::Folder) => warn(
            "secrets",
            "stored as plain text",
            "start the server on an embedded database; with PostgreSQL, set `secrets_key_file` on every replica",
        ),
        (None, _, _) => {
            warn("secrets", "stored as plain text", "run `everhook secrets rotate` once every replica has the keys")
        }
    }
}

pub(super) fn open_files(shortage: Option<Shortage>) -> Check {
    match shortage {
        None => ok("open files", "the limit suffices"),
        Some(Shortage { limit, needed }) => warn(
            "open files",
            format!("this process may open {limit} files but its configuration needs {needed}"),
            "raise the limit (`ulimit -n`, LimitNOFILE of systemd), or lower `slots` and `job_slots`",
        ),
    }
}

pub(super) struct Port {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) used: PortUse,
}

pub(super) enum PortUse {
    Free,
    Everhook,
    Other,
    /// In use, and this server would speak TLS there.
    Encrypted,
    /// This user may not listen there, or the machine does not have the address.
    Refused(String),
}

pub(super) fn tls(loaded: Result<(), BadServerTls>) -> Check {
    match loaded {
        Ok(()) => ok("tls", "the certificate and its key fit together"),
        Err(error) => fail("tls", error.to_string(), "correct `tls_certificate` and `tls_key`"),
    }
}

/// A port that the running server of this store uses is fine.
pub(super) fn port(port: &Port, is_served: bool) -> Check {
    let Port { name, address, used } = port;
    match used {
        PortUse::Free => ok(name, format!("{address} is free")),
        PortUse::Everhook => ok(name, format!("an Everhook server answers on {address}")),
        PortUse::Other | PortUse::Encrypted if is_served => {
            ok(name, format!("{address} is in use, as expected of a running server"))
        }
        PortUse::Encrypted => warn(
            name,
            format!("{address} is in use, and TLS hides by which program"),
            format!("check that it is Everhook, or change `{name}`"),
        ),
        PortUse::Other => fail(name, format!("another program uses {address}"), format!("stop it, or change `{name}`")),
        PortUse::Refused(error) => fail(
            name,
            format!("could not listen on {address}: {error}"),
            format!("set `{name}` to an address of this machine and a port above 1023"),
        ),
    }
}

#[cfg(test)]
mod tests;
