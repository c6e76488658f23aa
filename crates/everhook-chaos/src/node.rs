//! A server process that is started, killed, paused and restarted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, bail};
use everhook_testkit::process::{self, Process, free_port};

use crate::workshop::MARK;

/// The time limit for the first start, and for a graceful stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// The parameters to start every node of a run with.
#[derive(Clone, Debug)]
pub struct Launch {
    pub binary: PathBuf,
    pub folder: PathBuf,
    pub settings: Vec<(String, String)>,
    /// A process in whose mount namespace the node runs.
    pub namespace: Option<u32>,
}

pub struct Node {
    launch: Launch,
    number: usize,
    /// The listening address, which stays the same after a restart.
    pub address: String,
    process: Option<Process>,
    /// Whether the node should run. If it ends by itself, it is restarted, as a service manager would do.
    wanted: bool,
    /// The length of the log at the last start.
    born: u64,
}

impl Node {
    /// Creates a node without starting it.
    pub fn new(launch: Launch, number: usize) -> anyhow::Result<Node> {
        let address = format!("127.0.0.1:{}", free_port()?);
        Ok(Node { launch, number, address, process: None, wanted: false, born: 0 })
    }

    /// Starts the process without waiting for it.
    pub fn start(&mut self) -> anyhow::Result<()> {
        self.wanted = true;
        self.born = fs::metadata(self.file("log")).map_or(0, |file| file.len());
        let log = fs::OpenOptions::new().create(true).append(true).open(self.file("log"))?;
        let mut command = match self.launch.namespace {
            None => process::command(&self.launch.binary),
            Some(id) => {
                let mut command = process::command(Path::new("nsenter"));
                command.args(["--target", &id.to_string(), "--mount", "--"]).arg(&self.launch.binary);
                command
            }
        };
        command.arg("serve").env(MARK, &self.launch.folder).env("EVERHOOK_LISTEN", &self.address);
        command.envs(self.launch.settings.iter().map(|(name, value)| (name, value)));
        let process = Process::start(&mut command, log);
        self.process = Some(process.with_context(|| format!("could not start {}", self.launch.binary.display()))?);
        Ok(())
    }

    /// Waits until the first start has printed its address.
    pub async fn greeted(&self) -> anyhow::Result<()> {
        let waiting = async {
            loop {
                let process = self.process.as_ref().context("the node was not started")?;
                match process.line(Duration::ZERO) {
                    Ok(line) if process::address_in(&line).is_some() => return Ok(()),
                    Ok(_) => {}
                    Err(RecvTimeoutError::Disconnected) => bail!("the first node ended at its start: {}", self.log()),
                    Err(RecvTimeoutError::Timeout) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("the first node did not start in time")?
    }

    /// The process id, while the node runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Kills the process, as a power failure would.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.wanted = false;
        if let Some(process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Asks the process to stop, and waits until it has ended.
    pub async fn terminate(&mut self) -> anyhow::Result<()> {
        self.wanted = false;
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.signal("TERM")?;
        if process.wait(PATIENCE).await?.is_none() {
            process.kill()?;
            bail!("node {} did not stop within {} s of SIGTERM", self.number, PATIENCE.as_secs());
        }
        Ok(())
    }

    /// Sends a signal, for example to pause or continue.
    pub async fn signal(&self, name: &str) -> anyhow::Result<()> {
        match &self.process {
            Some(process) => Ok(process.signal(name)?),
            None => Ok(()),
        }
    }

    /// Restarts the node if it ended by itself; returns its last log line.
    pub fn keep(&mut self) -> anyhow::Result<Option<String>> {
        let ended = self.process.as_mut().is_none_or(|process| matches!(process.ended(), Ok(Some(_))));
        if !self.wanted || !ended {
            return Ok(None);
        }
        let reason = self.last_words();
        self.start()?;
        Ok(Some(reason))
    }

    /// The last error in the log since the last start, without parts that differ each time.
    fn last_words(&self) -> String {
        let log = fs::read(self.file("log")).unwrap_or_default();
        let life = log.get(usize::try_from(self.born).unwrap_or(0)..).unwrap_or_default();
        let life = String::from_utf8_lossy(life);
        let complaint = life.lines().rev().find(|line| line.starts_with("everhook: ")).or(life.lines().next_back());
        without_numbers(complaint.unwrap_or("it said nothing"))
    }

    /// The whole log, including earlier starts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.file("log")).unwrap_or_default()).into_owned()
    }

    fn file(&self, end: &str) -> PathBuf {
        Path::join(&self.launch.folder, format!("node-{}.{end}", self.number))
    }
}

/// Replaces numbers, because ports, process ids and times do not matter for the kind of an error.
fn without_numbers(text: &str) -> String {
    let mut short = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if letter != '#' || !short.ends_with('#') {
            short.push(letter);
        }
    }
    short
}
