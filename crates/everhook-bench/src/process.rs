//! The server under test, and what it costs.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::http::{read_frame, status};
use crate::metrics::Page;

/// A running server on an empty store.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) key: String,
    admin_key: String,
    _data: tempfile::TempDir,
}

/// Where it keeps its data.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Sqlite,
    Postgres(String),
}

impl Store {
    /// Tells a command of the binary where the data is.
    fn tell(&self, command: &mut Command, folder: &Path) {
        match self {
            Store::Sqlite => command.env("EVERHOOK_DATA", folder.join("data")),
            Store::Postgres(url) => command.env("EVERHOOK_DATABASE", url),
        };
    }
}

impl Server {
    /// Starts it and waits for its greeting.
    pub(crate) async fn start(binary: &Path, store: &Store) -> anyhow::Result<Server> {
        let data = tempfile::tempdir()?;
        let log = std::fs::File::create(data.path().join("log"))?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .env("EVERHOOK_LISTEN", "127.0.0.1:0")
            .env("EVERHOOK_EGRESS_ALLOW", "127.0.0.0/8")
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        store.tell(&mut command, data.path());
        let mut child = command.spawn().with_context(|| format!("could not start {}", binary.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        let (mut address, mut key) = (None, None);
        while let Some(line) = lines.next_line().await? {
            address = address.or_else(|| line.split("http://").nth(1).map(str::to_owned));
            key = key.or_else(|| line.trim().starts_with("ehk_").then(|| line.trim().to_owned()));
            if let (Some(address), Some(key)) = (&address, &key) {
                let (address, key) = (address.clone(), key.clone());
                let admin_key = create_admin_key(binary, store, data.path()).await?;
                return Ok(Server { child, address, key, admin_key, _data: data });
            }
        }
        let log = std::fs::read_to_string(data.path().join("log")).unwrap_or_default();
        bail!("the server did not greet: {log}")
    }

    /// What the server counted so far.
    pub(crate) async fn metrics(&self) -> anyhow::Result<Page> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request =
            format!("GET /metrics HTTP/1.1\r\nhost: server\r\nauthorization: Bearer {}\r\n\r\n", self.admin_key);
        stream.write_all(request.as_bytes()).await?;
        let mut buffer = Vec::new();
        let frame = read_frame(&mut stream, &mut buffer).await?.context("the server closed the connection")?;
        let text = String::from_utf8_lossy(&buffer[frame.head..frame.end]);
        if status(&buffer) != 200 {
            bail!("/metrics was answered with {text}");
        }
        Ok(Page::parse(&text))
    }

    /// CPU seconds the server has used so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.child.id().map_or(0.0, cpu_of)
    }

    /// Resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        let status = self.child.id().and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
        let line = status.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("VmRSS:")));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    }

    /// Stops it in good order; an exit other than 0 is an error.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("it runs")?.to_string();
        Command::new("kill").args(["-TERM", &id]).status().await?;
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("the server ended with {status}");
        }
        Ok(())
    }
}

async fn create_admin_key(binary: &Path, store: &Store, folder: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(binary);
    store.tell(command.args(["key", "create", "--admin"]), folder);
    let output = command.output().await.context("could not create an admin key")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let key = text.split_whitespace().find(|word| word.starts_with("ehk_"));
    key.map(str::to_owned).with_context(|| format!("no admin key: {}", String::from_utf8_lossy(&output.stderr)))
}

/// CPU seconds of every PostgreSQL process on the machine.
pub(crate) fn postgres_cpu_seconds() -> f64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0.0 };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_postgres =
        |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "postgres");
    ids.filter(is_postgres).map(cpu_of).sum()
}

fn cpu_of(id: u32) -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}
