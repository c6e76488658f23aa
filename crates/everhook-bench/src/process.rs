//! The server under test: its store, its start and stop, and its resource usage.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use everhook_testkit::http::{read_frame, status};
use everhook_testkit::process::{self, Process};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::metrics::Page;

/// The time limit for starting and for stopping a server.
const PATIENCE: Duration = Duration::from_secs(120);

/// A store with schema and keys, without a server.
pub(crate) struct Place {
    binary: PathBuf,
    folder: tempfile::TempDir,
    store: Store,
    key: String,
    admin_key: String,
    /// Environment variables for all commands on this store.
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// The location of the data.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Sqlite,
    Postgres { url: String, name: String, admin_url: String },
}

pub(crate) struct Server {
    process: Process,
    pub(crate) address: String,
    pub(crate) key: String,
    pub(crate) accepts: bool,
    admin_key: String,
    log: PathBuf,
}

impl Place {
    /// Creates an empty store: a folder, or a database in the PostgreSQL at this URL.
    pub(crate) async fn new(binary: &Path, database: Option<&str>) -> anyhow::Result<Place> {
        let folder = tempfile::tempdir()?;
        let store = match database {
            None => Store::Sqlite,
            Some(admin_url) => {
                let name = format!("bench_{}_{}", std::process::id(), unique());
                connect(admin_url).await?.batch_execute(&format!("create database {name}")).await?;
                let (base, _) = admin_url.rsplit_once('/').context("the database URL names a database")?;
                Store::Postgres { url: format!("{base}/{name}"), name, admin_url: admin_url.to_owned() }
            }
        };
        let (key, admin_key) = (String::new(), String::new());
        let mut place = Place { binary: binary.to_owned(), folder, store, key, admin_key, settings: Vec::new() };
        place.ask(&["migrate"]).await?;
        place.key = place.create_key(&[]).await?;
        place.admin_key = place.create_key(&["--admin"]).await?;
        Ok(place)
    }

    async fn create_key(&self, flags: &[&str]) -> anyhow::Result<String> {
        let text = self.ask(&[&["key", "create"], flags].concat()).await?;
        let key = text.split_whitespace().find(|word| word.starts_with("ehk_"));
        key.map(str::to_owned).context("no key was printed")
    }

    /// Runs a command of the binary and returns its output.
    async fn ask(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::from(self.command());
        let output = command.args(arguments).output().await.context("could not run the binary")?;
        if !output.status.success() {
            bail!("{arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self) -> std::process::Command {
        let mut command = process::command(&self.binary);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        match &self.store {
            Store::Sqlite => command.env("EVERHOOK_DATA", self.data()),
            Store::Postgres { url, .. } => command.env("EVERHOOK_DATABASE", url),
        };
        command
    }

    /// The URL of the database; none for the embedded store.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.store {
            Store::Sqlite => None,
            Store::Postgres { url, .. } => Some(url),
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.data().join("everhook.db")
    }

    /// Opens a connection to the database; returns none for the embedded store.
    pub(crate) async fn client(&self) -> anyhow::Result<Option<tokio_postgres::Client>> {
        match &self.store {
            Store::Sqlite => Ok(None),
            Store::Postgres { url, .. } => connect(url).await.map(Some),
        }
    }

    /// Starts a server with all roles.
    pub(crate) async fn start(&self) -> anyhow::Result<Server> {
        self.start_as("all").await
    }

    /// Starts a server with a role and waits for its first output line.
    pub(crate) async fn start_as(&self, role: &str) -> anyhow::Result<Server> {
        let log = self.folder.path().join(format!("log{}", unique()));
        let mut command = self.command();
        command
            .args(["serve", "--role", role])
            .env("EVERHOOK_LISTEN", "127.0.0.1:0")
            .env("EVERHOOK_EGRESS_ALLOW", "127.0.0.0/8")
            .env("EVERHOOK_GRACE_SECONDS", "1")
            .env("EVERHOOK_STOP_DELAY_SECONDS", "0")
            // A delivery that fails once is retried within a run. One that keeps failing is retried after the run.
            .env("EVERHOOK_RETRY_SCHEDULE", "1,60,3600");
        let process = Process::start(&mut command, std::fs::File::create(&log)?);
        let process = process.with_context(|| format!("could not start {}", self.binary.display()))?;
        while let Ok(line) = tokio::task::block_in_place(|| process.line(PATIENCE)) {
            if let Some(address) = process::address_in(&line) {
                let (key, admin_key) = (self.key.clone(), self.admin_key.clone());
                let (address, accepts) = (address.to_owned(), role != "worker");
                return Ok(Server { process, address, key, accepts, admin_key, log });
            }
        }
        bail!("the server did not start: {}", std::fs::read_to_string(log).unwrap_or_default())
    }

    /// Removes the store, because several stores of ten million rows would fill the disk.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        if let Store::Postgres { name, admin_url, .. } = &self.store {
            connect(admin_url).await?.batch_execute(&format!("drop database {name} with (force)")).await?;
        }
        Ok(())
    }
}

impl Server {
    /// Reads the server's metrics.
    pub(crate) async fn metrics(&self) -> anyhow::Result<Page> {
        Ok(Page::parse(&self.get_as_admin("/metrics").await?))
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> anyhow::Result<()> {
        self.call("POST", path, &self.key, body).await.map(drop)
    }

    /// Sends a POST request with the administrator's key.
    pub(crate) async fn post_as_admin(&self, path: &str) -> anyhow::Result<()> {
        self.call("POST", path, &self.admin_key, "").await.map(drop)
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<String> {
        self.call("GET", path, &self.key, "").await
    }

    async fn call(&self, method: &str, path: &str, key: &str, body: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: server\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut buffer = Vec::new();
        let frame = read_frame(&mut stream, &mut buffer).await?.context("the server closed the connection")?;
        let text = String::from_utf8_lossy(&buffer[frame.head..frame.end]).into_owned();
        if !(200..300).contains(&status(&buffer)) {
            bail!("{path} was answered with {} {text}", status(&buffer));
        }
        Ok(text)
    }

    /// Sends a GET request with the administrator's key.
    pub(crate) async fn get_as_admin(&self, path: &str) -> anyhow::Result<String> {
        self.call("GET", path, &self.admin_key, "").await
    }

    /// CPU seconds that the server has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_of(self.process.id())
    }

    /// The maximum resident memory so far, in MiB.
    pub(crate) fn peak_mib(&self) -> f64 {
        self.memory_mib("VmHWM:")
    }

    /// The resident memory now, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        self.memory_mib("VmRSS:")
    }

    fn memory_mib(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok();
        let line = status.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix(name)));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    }

    /// Counts the warnings and errors in the server's log.
    pub(crate) fn complaints(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR ")).count()
    }

    /// Stops the server gracefully; fails if its exit code is not 0.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.process.signal("TERM")?;
        let status = self.process.wait(PATIENCE).await?.context("the server does not stop")?;
        if !status.success() {
            bail!("the server ended with {status}");
        }
        Ok(())
    }
}

/// CPU seconds of all PostgreSQL processes on the machine.
pub(crate) fn postgres_cpu_seconds() -> f64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0.0 };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_postgres =
        |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "postgres");
    ids.filter(is_postgres).map(cpu_of).sum()
}

pub(crate) fn cpu_of(id: u32) -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    // This includes waited-for children: the CPU time of ended PostgreSQL backends counts for the postmaster.
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12) + ticks(13) + ticks(14)) / TICKS_PER_SECOND
}

pub(crate) async fn connect(url: &str) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn unique() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
