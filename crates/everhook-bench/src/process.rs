//! The server under test, and what it costs.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A running server on an empty store.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) key: String,
    _data: tempfile::TempDir,
}

/// Where it keeps its data.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Sqlite,
    Postgres(String),
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
        match store {
            Store::Sqlite => command.env("EVERHOOK_DATA", data.path().join("data")),
            Store::Postgres(url) => command.env("EVERHOOK_DATABASE", url),
        };
        let mut child = command.spawn().with_context(|| format!("could not start {}", binary.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        let (mut address, mut key) = (None, None);
        while let Some(line) = lines.next_line().await? {
            address = address.or_else(|| line.split("http://").nth(1).map(str::to_owned));
            key = key.or_else(|| line.trim().starts_with("ehk_").then(|| line.trim().to_owned()));
            if let (Some(address), Some(key)) = (&address, &key) {
                return Ok(Server { child, address: address.clone(), key: key.clone(), _data: data });
            }
        }
        let log = std::fs::read_to_string(data.path().join("log")).unwrap_or_default();
        bail!("the server did not greet: {log}")
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
