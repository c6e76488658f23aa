//! PostgreSQL under a failover manager: two servers, Patroni and etcd from the distribution's packages, on loopback.
//!
//! The manager decides which server is the primary. This module only injects faults and waits until the cluster is
//! stable again. The settings are those of `docs/high-availability.md`, with shorter times.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use everhook_testkit::process::free_port;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio_postgres::Client;

use crate::cluster::{DATABASE, USER, connect, find_programs, hold_senders, unprivileged};
use crate::process::{family, signal};
use crate::workshop::MARK;

/// The time limit for a primary and a synchronous standby to be ready.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// Seconds after which a primary is replaced if its manager does not respond.
const TTL: u64 = 8;
const INSTALL: &str = "on Debian or Ubuntu: `apt-get install patroni etcd-server etcd-client python3-etcd`";

/// Two servers with their managers.
pub struct Patroni {
    folder: PathBuf,
    account: Option<(u32, u32)>,
    _etcd: Child,
    members: [Member; 2],
}

struct Member {
    name: &'static str,
    port: u16,
    manager: Option<Child>,
}

impl Patroni {
    /// Starts the cluster and creates an empty database.
    pub async fn start(folder: &Path) -> anyhow::Result<Patroni> {
        let programs = find_programs().context("PostgreSQL's server programs are not installed")?;
        let folder = folder.join("patroni");
        fs::create_dir(&folder)?;
        let account = unprivileged(&folder)?;
        if let Some((user, group)) = account {
            chown(&folder, Some(user), Some(group))?;
        }
        let client = format!("127.0.0.1:{}", free_port()?);
        let etcd = start_etcd(&folder, account, &client)?;
        let member = |name| anyhow::Ok(Member { name, port: free_port()?, manager: None });
        let mut patroni = Patroni { folder, account, _etcd: etcd, members: [member("a")?, member("b")?] };
        for number in 0..2 {
            let settings = patroni.settings(number, &client, &programs)?;
            // JSON is valid YAML.
            fs::write(patroni.file(number, "yml"), settings.to_string())?;
            patroni.start_manager(number)?;
        }
        let primary = patroni.rest().await?;
        let client = connect(patroni.members[primary].port, "postgres").await?;
        client.batch_execute(&format!("create database {DATABASE}")).await?;
        Ok(patroni)
    }

    /// The addresses of the servers, which stay the same when roles change.
    pub fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect()
    }

    /// Connects to the current primary.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        let looking = async {
            loop {
                for number in 0..2 {
                    if self.is_primary(number).await {
                        return connect(self.members[number].port, DATABASE).await;
                    }
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.context("no server became the primary in time")?
    }

    /// Crashes the primary and its manager, with all changes not yet sent to the standby. The other manager must notice
    /// this by itself.
    pub async fn fail_over(&mut self, lag: Duration) -> anyhow::Result<()> {
        let old = self.rest().await?;
        hold_senders(self.members[old].port, lag).await?;
        let mut manager = self.members[old].manager.take().context("the manager runs")?;
        let mut ids = vec![manager.id().context("the manager runs")?];
        let server = self.server(old)?;
        signal("STOP", &[ids[0], server]).await?;
        ids.extend(family(server));
        signal("KILL", &ids).await?;
        manager.wait().await?;
        self.promoted(1 - old).await?;
        self.start_manager(old)?;
        self.rest().await?;
        Ok(())
    }

    /// Asks the managers for a planned switch of roles.
    pub async fn switch_over(&self) -> anyhow::Result<()> {
        let old = self.rest().await?;
        let (leader, candidate) = (self.members[old].name, self.members[1 - old].name);
        let mut command = self.program("patronictl");
        command.arg("-c").arg(self.file(old, "yml")).args(["switchover", "--force"]);
        crate::process::run(command.args(["--leader", leader, "--candidate", candidate])).await?;
        self.promoted(1 - old).await?;
        self.rest().await?;
        Ok(())
    }

    /// Pauses the primary's manager until the standby was promoted, and for `overlap` longer. During that time there
    /// are two primaries, and the old one must not confirm any commit.
    pub async fn pause_manager(&self, overlap: Duration) -> anyhow::Result<()> {
        let old = self.rest().await?;
        let manager = self.members[old].manager.as_ref().and_then(Child::id).context("the manager runs")?;
        signal("STOP", &[manager]).await?;
        let promoted = self.promoted(1 - old).await;
        tokio::time::sleep(overlap).await;
        signal("CONT", &[manager]).await?;
        promoted?;
        self.rest().await?;
        Ok(())
    }

    /// Waits until there are one primary and one synchronous standby; returns the number of the primary.
    async fn rest(&self) -> anyhow::Result<usize> {
        let waiting = async {
            loop {
                if let Some(primary) = self.roles().await {
                    return primary;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("Patroni did not become stable in time")
    }

    /// Returns the primary if all servers agree on it and on its synchronous standby.
    async fn roles(&self) -> Option<usize> {
        let mut command = self.program("patronictl");
        command.arg("-c").arg(self.file(0, "yml")).args(["list", "--format", "json"]);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(PATIENCE / 4, output).await.ok()?.ok()?;
        let listed: Value = serde_json::from_slice(&output.stdout).ok()?;
        let role = |member: &Member| {
            let found = listed.as_array()?.iter().find(|listed| listed["Member"] == member.name)?;
            Some((found["Role"].as_str()?.to_owned(), found["State"].as_str()?.to_owned()))
        };
        let [a, b] = [role(&self.members[0])?, role(&self.members[1])?];
        let is = |(role, state): &(String, String), want: &str| {
            role == want && ["running", "streaming"].contains(&state.as_str())
        };
        let primary = usize::from(is(&b, "Leader"));
        let (leader, standby) = if primary == 1 { (&b, &a) } else { (&a, &b) };
        (is(leader, "Leader") && is(standby, "Sync Standby") && self.is_primary(primary).await).then_some(primary)
    }

    async fn promoted(&self, number: usize) -> anyhow::Result<()> {
        let waiting = async {
            while !self.is_primary(number).await {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("Patroni did not promote the standby")
    }

    async fn is_primary(&self, number: usize) -> bool {
        let asked = async {
            let client = connect(self.members[number].port, "postgres").await?;
            anyhow::Ok(client.query_one("select not pg_is_in_recovery()", &[]).await?.get(0))
        };
        tokio::time::timeout(Duration::from_secs(5), asked).await.is_ok_and(|primary| primary.unwrap_or(false))
    }

    fn start_manager(&mut self, number: usize) -> anyhow::Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.file(number, "log"))?;
        let mut command = self.program("patroni");
        command.arg(self.file(number, "yml")).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.members[number].manager = Some(spawn(command.kill_on_drop(true), "patroni")?);
        Ok(())
    }

    /// The process id of a running server.
    fn server(&self, number: usize) -> anyhow::Result<u32> {
        let file = fs::read_to_string(self.data(number).join("postmaster.pid")).context("the primary does not run")?;
        file.lines().next().and_then(|id| id.trim().parse().ok()).context("a pid file without an id")
    }

    fn settings(&self, number: usize, etcd: &str, programs: &Path) -> anyhow::Result<Value> {
        let Member { name, port, .. } = self.members[number];
        let (server, api) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", free_port()?));
        let initdb = json!([
            { "encoding": "UTF8" }, { "locale": "C" }, "data-checksums", { "username": USER }, { "auth": "trust" },
        ]);
        Ok(json!({
            "scope": "chaos",
            "name": name,
            "restapi": { "listen": api, "connect_address": api },
            // Version 2 of etcd's API. The guide explains the defect of Patroni 3.0 with version 3.
            "etcd": { "hosts": [etcd] },
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "synchronous_mode": true,
                    "synchronous_mode_strict": true,
                    "postgresql": {
                        "use_pg_rewind": true,
                        "parameters": { "max_connections": 150, "wal_keep_size": "1GB" },
                    },
                },
                "initdb": initdb,
            },
            "postgresql": {
                "listen": server,
                "connect_address": server,
                "bin_dir": programs,
                "data_dir": self.data(number),
                "pgpass": self.file(number, "pgpass"),
                "authentication": { "superuser": { "username": USER }, "replication": { "username": USER } },
                "parameters": { "unix_socket_directories": "" },
                "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
            },
            "watchdog": { "mode": "off" },
        }))
    }

    fn data(&self, number: usize) -> PathBuf {
        self.folder.join(self.members[number].name)
    }

    fn file(&self, number: usize, end: &str) -> PathBuf {
        self.folder.join(format!("{}.{end}", self.members[number].name))
    }

    fn program(&self, name: &str) -> Command {
        program(name, &self.folder, self.account)
    }
}

fn start_etcd(folder: &Path, account: Option<(u32, u32)>, client: &str) -> anyhow::Result<Child> {
    let (client, peer) = (format!("http://{client}"), format!("http://127.0.0.1:{}", free_port()?));
    let log = fs::File::create(folder.join("etcd.log"))?;
    let mut command = program("etcd", folder, account);
    command.arg("--data-dir").arg(folder.join("etcd")).args(["--name", "chaos", "--enable-v2=true"]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("chaos={peer}")]);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    spawn(command.kill_on_drop(true), "etcd")
}

/// A command for one of the programs, under the account that may run PostgreSQL.
fn program(name: &str, folder: &Path, account: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(folder).env("LC_ALL", "C");
    if let Some(run) = folder.parent() {
        command.env(MARK, run);
    }
    if let Some((user, group)) = account {
        command.uid(user).gid(group);
    }
    command
}

fn spawn(command: &mut Command, name: &str) -> anyhow::Result<Child> {
    match command.spawn() {
        Ok(child) => Ok(child),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!("{name} is not installed; {INSTALL}"),
        Err(error) => Err(error).with_context(|| format!("could not start {name}")),
    }
}
