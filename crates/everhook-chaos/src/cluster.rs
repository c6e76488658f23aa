//! PostgreSQL for a run: a primary and a standby that this tool starts, or a database in a given server.
//!
//! PostgreSQL refuses to run as root; its processes then run as `postgres` or `nobody`. Durability settings keep their
//! defaults, because a crash test without fsync would prove nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use everhook_testkit::process::free_port;
use tokio::process::{Child, Command};
use tokio_postgres::{Client, NoTls};

use crate::patroni::Patroni;
use crate::process::{family, run, signal};
use crate::workshop::MARK;

/// The time limit for PostgreSQL to start, recover or promote.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
pub(crate) const DATABASE: &str = "chaos";
/// The only user, who needs no password.
pub(crate) const USER: &str = "everhook";
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 150
wal_keep_size = '1GB'
wal_retrieve_retry_interval = '200ms'
wal_receiver_status_interval = '1s'
";

/// The replication mode of the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Standby {
    /// Commits wait for the standby.
    Sync,
    /// Commits do not wait for the standby. This is the negative control: a promotion loses acknowledged messages.
    Async,
}

/// A primary and its standby, which can switch roles.
pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    account: Option<(u32, u32)>,
    standby: Standby,
    servers: [Server; 2],
    primary: usize,
}

struct Server {
    name: &'static str,
    port: u16,
    process: Option<Child>,
}

impl Cluster {
    /// Returns whether PostgreSQL's programs are installed.
    pub fn is_possible() -> bool {
        find_programs().is_some()
    }

    /// Starts both servers and creates an empty database.
    pub async fn start(folder: &Path, standby: Standby) -> anyhow::Result<Cluster> {
        let programs = find_programs().context("PostgreSQL's server programs are not installed")?;
        let folder = folder.join("postgres");
        fs::create_dir(&folder)?;
        let account = unprivileged(&folder)?;
        if let Some((user, group)) = account {
            chown(&folder, Some(user), Some(group))?;
        }
        let server = |name| anyhow::Ok(Server { name, port: free_port()?, process: None });
        let mut cluster =
            Cluster { programs, folder, account, standby, servers: [server("a")?, server("b")?], primary: 0 };
        let data = cluster.data(0);
        let mut initdb = cluster.program("initdb");
        initdb.arg("--pgdata").arg(&data).args(["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        run(initdb.arg("--no-sync")).await?;
        let mut settings = fs::read_to_string(data.join("postgresql.conf"))? + SETTINGS;
        if standby == Standby::Sync {
            settings += "synchronous_standby_names = 'everhook_standby'\n";
        }
        fs::write(data.join("postgresql.conf"), settings)?;
        cluster.start_server(0).await?;
        cluster.build_standby().await?;
        connect(cluster.servers[0].port, "postgres")
            .await?
            .batch_execute(&format!("create database {DATABASE}"))
            .await?;
        Ok(cluster)
    }

    /// The addresses of the servers, which stay the same when roles change.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect()
    }

    /// Connects to the current primary.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        connect(self.servers[self.primary].port, DATABASE).await
    }

    /// Stops the primary gracefully and starts it again.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let server = &mut self.servers[self.primary];
        let mut process = server.process.take().context("the primary runs")?;
        signal("INT", &[process.id().context("it runs")?]).await?;
        tokio::time::timeout(PATIENCE, process.wait()).await.context("PostgreSQL did not stop")??;
        self.start_server(self.primary).await
    }

    /// Pauses the primary for a while.
    pub async fn stall(&self, span: Duration) -> anyhow::Result<()> {
        let ids = self.freeze().await?;
        tokio::time::sleep(span).await;
        signal("CONT", &ids).await
    }

    /// Crashes the primary with all changes not yet sent, promotes the standby, and builds a new standby.
    ///
    /// If `silent`, the old primary hangs instead: open connections to it stay open, and new connections hang, too.
    pub async fn fail_over(&mut self, lag: Duration, silent: bool) -> anyhow::Result<()> {
        hold_senders(self.servers[self.primary].port, lag).await?;
        let ids = self.freeze().await?;
        if !silent {
            self.bury(&ids).await?;
        }
        let old = self.primary;
        let mut promote = self.program("pg_ctl");
        promote.arg("promote").arg("--pgdata").arg(self.data(1 - old)).args(["--wait", "--timeout=60"]);
        run(&mut promote).await?;
        self.primary = 1 - old;
        if silent {
            // This is long enough for the nodes to find the new primary while the old one still hangs.
            tokio::time::sleep(Duration::from_secs(4)).await;
            self.bury_server(old, &ids).await?;
        }
        self.build_standby().await
    }

    /// Pauses all processes of the primary, starting with the postmaster so that it starts no new ones.
    async fn freeze(&self) -> anyhow::Result<Vec<u32>> {
        let id = self.servers[self.primary].process.as_ref().and_then(Child::id).context("the primary runs")?;
        signal("STOP", &[id]).await?;
        let ids = family(id);
        signal("STOP", &ids).await?;
        Ok(ids)
    }

    async fn bury(&mut self, ids: &[u32]) -> anyhow::Result<()> {
        self.bury_server(self.primary, ids).await
    }

    async fn bury_server(&mut self, server: usize, ids: &[u32]) -> anyhow::Result<()> {
        signal("KILL", ids).await?;
        let mut process = self.servers[server].process.take().context("it ran")?;
        process.wait().await?;
        Ok(())
    }

    /// Rebuilds the other server as a standby from scratch, and waits until it replicates.
    async fn build_standby(&mut self) -> anyhow::Result<()> {
        let (primary, standby) = (self.primary, 1 - self.primary);
        let (port, data) = (self.servers[primary].port, self.data(standby));
        let _ = fs::remove_dir_all(&data);
        let mut backup = self.program("pg_basebackup");
        backup.arg("--pgdata").arg(&data).args(["--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
        run(backup.args(["--host=127.0.0.1", "--username", USER, "--port", &port.to_string()])).await?;
        let source = format!("host=127.0.0.1 port={port} user={USER} application_name=everhook_standby");
        let conf = data.join("postgresql.auto.conf");
        let settings = fs::read_to_string(&conf)? + &format!("primary_conninfo = '{source}'\n");
        fs::write(&conf, settings)?;
        fs::write(data.join("standby.signal"), "")?;
        if let Some((user, group)) = self.account {
            chown(data.join("standby.signal"), Some(user), Some(group))?;
        }
        self.start_server(standby).await?;
        let follows = match self.standby {
            Standby::Sync => "select 1 from pg_stat_replication where state = 'streaming' and sync_state = 'sync'",
            Standby::Async => "select 1 from pg_stat_replication where state = 'streaming'",
        };
        let client = connect(port, "postgres").await?;
        let waiting = async {
            while client.query(follows, &[]).await?.is_empty() {
                tokio::time::sleep(POLL).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("the standby did not start to replicate in time")?
    }

    async fn start_server(&mut self, number: usize) -> anyhow::Result<()> {
        let (data, port) = (self.data(number), self.servers[number].port);
        let log = self.folder.join(format!("{}.log", self.servers[number].name));
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = self.program("postgres");
        command.arg("-D").arg(&data).args(["-c", &format!("port={port}")]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        self.servers[number].process = Some(command.spawn().context("could not start PostgreSQL")?);
        let waiting = async {
            while connect(port, "postgres").await.is_err() {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("PostgreSQL does not start")
    }

    fn data(&self, number: usize) -> PathBuf {
        self.folder.join(self.servers[number].name)
    }

    /// A command for one of PostgreSQL's programs, under the account that may run it.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(&self.folder).env("LC_ALL", "C");
        if let Some(run) = self.folder.parent() {
            command.env(MARK, run);
        }
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        command
    }
}

/// The database of a run.
pub enum Database {
    /// A cluster started by this tool.
    Own(Box<Cluster>),
    /// A cluster started by this tool, under a failover manager.
    Managed(Box<Patroni>),
    /// A database in a given server, which must not be stopped.
    Given {
        /// The URL up to and including the `@`.
        head: String,
        address: String,
        name: String,
    },
}

impl Database {
    /// Creates a database in the server at `url`, which names a superuser.
    pub async fn create_in(url: &str, seed: u64) -> anyhow::Result<Database> {
        let (scheme, rest) = url.split_once("://").context("not a URL")?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (user, address) = authority.rsplit_once('@').context("the URL names a user")?;
        let (head, address) = (format!("{scheme}://{user}@"), address.to_owned());
        let name = format!("everhook_chaos_{seed:x}_{}", std::process::id());
        let client = open(&format!("{head}{address}/postgres")).await?;
        client.batch_execute(&format!("create database {name}")).await?;
        Ok(Database::Given { head, address, name })
    }

    pub fn addresses(&self) -> Vec<String> {
        match self {
            Database::Own(cluster) => cluster.addresses(),
            Database::Managed(patroni) => patroni.addresses(),
            Database::Given { address, .. } => vec![address.clone()],
        }
    }

    /// The URL for a node that reaches the servers at these addresses.
    pub fn url(&self, addresses: &[String]) -> String {
        let addresses = addresses.join(",");
        match self {
            Database::Own(_) | Database::Managed(_) => {
                format!("postgres://{USER}@{addresses}/{DATABASE}?target_session_attrs=read-write&sslmode=disable")
            }
            Database::Given { head, name, .. } => format!("{head}{addresses}/{name}?sslmode=disable"),
        }
    }

    /// Connects without a proxy.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        match self {
            Database::Own(cluster) => cluster.connect().await,
            Database::Managed(patroni) => patroni.connect().await,
            Database::Given { head, address, name } => open(&format!("{head}{address}/{name}")).await,
        }
    }

    /// Drops the database that was created in a given server.
    pub async fn drop_given(&self) {
        if let Database::Given { head, address, name } = self
            && let Ok(client) = open(&format!("{head}{address}/postgres")).await
        {
            let _ = client.batch_execute(&format!("drop database if exists {name} with (force)")).await;
        }
    }
}

/// Keeps further commits of the server at this port from reaching its standby, for the time `lag`.
pub(crate) async fn hold_senders(port: u16, lag: Duration) -> anyhow::Result<()> {
    if lag.is_zero() {
        return Ok(());
    }
    let rows = connect(port, "postgres").await?.query("select pid from pg_stat_replication", &[]).await?;
    let ids = rows.iter().filter_map(|row| u32::try_from(row.get::<_, i32>(0)).ok()).collect::<Vec<_>>();
    signal("STOP", &ids).await?;
    tokio::time::sleep(lag).await;
    Ok(())
}

/// Connects as superuser to the server at this port.
pub(crate) async fn connect(port: u16, database: &str) -> anyhow::Result<Client> {
    open(&format!("postgres://{USER}@127.0.0.1:{port}/{database}?sslmode=disable&application_name=chaos")).await
}

async fn open(url: &str) -> anyhow::Result<Client> {
    let connecting = tokio_postgres::connect(url, NoTls);
    let (client, connection) = tokio::time::timeout(Duration::from_secs(5), connecting).await??;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns the account to run PostgreSQL under if this process is root, because PostgreSQL refuses to run as root.
pub(crate) fn unprivileged(ours: &Path) -> anyhow::Result<Option<(u32, u32)>> {
    if fs::metadata(ours)?.uid() != 0 {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd")?;
    let named = |name: &str| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    let account = named("postgres").or_else(|| named("nobody"));
    Ok(Some(account.context("PostgreSQL refuses to run as root: add a user named postgres")?))
}

/// The folder of the server's programs: from `pg_config`, or the newest version that Debian has installed.
pub(crate) fn find_programs() -> Option<PathBuf> {
    let configured = std::process::Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok();
    let configured = configured.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions = versions.map(|version| version.path()).collect::<Vec<_>>();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let installed = versions.into_iter().rev().map(|version| version.join("bin"));
    std::iter::once(PathBuf::from(configured.trim()))
        .chain(installed)
        .find(|bin| bin.join("pg_basebackup").is_file() && bin.join("initdb").is_file())
}
