//! PostgreSQL for a run: a primary and a standby of the tool's own, or a database in a server it was given.
//!
//! PostgreSQL refuses to run as root; its processes then belong to `postgres` or `nobody`. Durability settings stay at their
//! defaults: a crash test on a database that does not fsync would prove nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::process::{Child, Command};
use tokio_postgres::{Client, NoTls};

use crate::patroni::Patroni;
use crate::process::{family, free_port, run, signal};
use crate::workshop::MARK;

/// How long PostgreSQL may take to start, recover or promote.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// The database that the nodes use.
pub(crate) const DATABASE: &str = "chaos";
/// Everyone's name, whom everyone trusts.
pub(crate) const USER: &str = "everhook";
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 150
wal_keep_size = '1GB'
wal_retrieve_retry_interval = '200ms'
wal_receiver_status_interval = '1s'
";

/// What stands beside the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Standby {
    /// Commits wait for it.
    Sync,
    /// Commits do not wait for it: the negative control, promoting it loses what was acknowledged.
    Async,
}

/// A primary and its standby; which is which changes.
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
    /// Whether PostgreSQL's programs are installed.
    pub fn is_possible() -> bool {
        find_programs().is_some()
    }

    /// Sets both up and creates an empty database.
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

    /// Where the servers listen; they keep their ports when they change roles.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect()
    }

    /// A connection to the primary of the moment.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        connect(self.servers[self.primary].port, DATABASE).await
    }

    /// Stops the primary in good order and starts it again.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let server = &mut self.servers[self.primary];
        let mut process = server.process.take().context("the primary runs")?;
        signal("INT", &[process.id().context("it runs")?]).await?;
        tokio::time::timeout(PATIENCE, process.wait()).await.context("PostgreSQL did not stop")??;
        self.start_server(self.primary).await
    }

    /// Lets the primary stand still for a while.
    pub async fn stall(&self, span: Duration) -> anyhow::Result<()> {
        let ids = self.freeze().await?;
        tokio::time::sleep(span).await;
        signal("CONT", &ids).await
    }

    /// The primary dies with everything it has not sent, the standby takes its place, and a new standby is built.
    ///
    /// If `silent`, nobody is told of the death: connections to the old primary stay open and hang, and new ones hang, too.
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
            // Long enough for the nodes to find the new one without any help from the old.
            tokio::time::sleep(Duration::from_secs(4)).await;
            self.bury_server(old, &ids).await?;
        }
        self.build_standby().await
    }

    /// Stops every process of the primary, the first one first so that it starts no more.
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

    /// Makes the server that is not the primary its standby, from scratch, and waits until it follows.
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
        tokio::time::timeout(PATIENCE, waiting).await.context("the standby does not follow")?
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

    /// One of PostgreSQL's programs, under the account that may run it.
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
    /// The tool's own.
    Own(Box<Cluster>),
    /// The tool's own, under a failover manager.
    Managed(Box<Patroni>),
    /// One in a server that it was given, which it must not stop.
    Given {
        /// Up to and with the `@`.
        head: String,
        /// Host and port.
        address: String,
        /// The new database.
        name: String,
    },
}

impl Database {
    /// Creates a database in a server whose superuser's URL is `url`.
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

    /// Where its servers listen.
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

    /// A connection that goes through no proxy.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        match self {
            Database::Own(cluster) => cluster.connect().await,
            Database::Managed(patroni) => patroni.connect().await,
            Database::Given { head, address, name } => open(&format!("{head}{address}/{name}")).await,
        }
    }

    /// Drops what was created in a server that stays.
    pub async fn drop_given(&self) {
        if let Database::Given { head, address, name } = self
            && let Ok(client) = open(&format!("{head}{address}/postgres")).await
        {
            let _ = client.batch_execute(&format!("drop database if exists {name} with (force)")).await;
        }
    }
}

/// What the server at this port commits from now on does not reach its standby; waits for as long.
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

/// A superuser's connection to the server at this port.
pub(crate) async fn connect(port: u16, database: &str) -> anyhow::Result<Client> {
    open(&format!("postgres://{USER}@127.0.0.1:{port}/{database}?sslmode=disable&application_name=chaos")).await
}

async fn open(url: &str) -> anyhow::Result<Client> {
    let connecting = tokio_postgres::connect(url, NoTls);
    let (client, connection) = tokio::time::timeout(Duration::from_secs(5), connecting).await??;
    tokio::spawn(connection);
    Ok(client)
}

/// PostgreSQL refuses to run as root: the account to run it under, if we are.
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

/// The folder of the server's programs: what `pg_config` says, else the newest version Debian has installed.
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
