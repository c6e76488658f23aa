//! The real binary as a process that is started, killed, paused and started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, bail};
use everhook_testkit::process::{self, Process};

use crate::process::free_port;
use crate::workshop::MARK;

/// How long a node may take for its first start, and to stop in good order.
const PATIENCE: Duration = Duration::from_secs(60);

/// What every node of a run is started with.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary.
    pub binary: PathBuf,
    /// The folder of the run.
    pub folder: PathBuf,
    /// Variables.
    pub settings: Vec<(String, String)>,
    /// A process in whose mount namespace it runs.
    pub namespace: Option<u32>,
}

/// One node.
pub struct Node {
    launch: Launch,
    number: usize,
    /// Where it listens, in every life.
    pub address: String,
    process: Option<Process>,
    /// Whether it is to run; if it ends by itself it is started again, as a service manager would.
    wanted: bool,
    /// How long its log was when its present life began.
    born: u64,
}

impl Node {
    /// A node that does not run yet.
    pub fn new(launch: Launch, number: usize) -> anyhow::Result<Node> {
        let address = format!("127.0.0.1:{}", free_port()?);
        Ok(Node { launch, number, address, process: None, wanted: false, born: 0 })
    }

    /// Starts it and waits for nothing.
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

    /// Waits for the greeting of the very first start.
    pub async fn greeted(&self) -> anyhow::Result<()> {
        let waiting = async {
            loop {
                let process = self.process.as_ref().context("it was not started")?;
                match process.line(Duration::ZERO) {
                    Ok(line) if process::address_in(&line).is_some() => return Ok(()),
                    Ok(_) => {}
                    Err(RecvTimeoutError::Disconnected) => bail!("the first node ended at its start: {}", self.log()),
                    Err(RecvTimeoutError::Timeout) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("the first node does not greet")?
    }

    /// Its process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Ends it as a power cut would.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.wanted = false;
        if let Some(process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Asks it to stop and waits until it has.
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

    /// Lets it stand still, or go on.
    pub async fn signal(&self, name: &str) -> anyhow::Result<()> {
        match &self.process {
            Some(process) => Ok(process.signal(name)?),
            None => Ok(()),
        }
    }

    /// Starts it again if it ended by itself; says what it said last.
    pub fn keep(&mut self) -> anyhow::Result<Option<String>> {
        let ended = self.process.as_mut().is_none_or(|process| matches!(process.ended(), Ok(Some(_))));
        if !self.wanted || !ended {
            return Ok(None);
        }
        let reason = self.last_words();
        self.start()?;
        Ok(Some(reason))
    }

    /// Why its last life ended, by its own account, without what differs from one time to the next.
    fn last_words(&self) -> String {
        let log = fs::read(self.file("log")).unwrap_or_default();
        let life = log.get(usize::try_from(self.born).unwrap_or(0)..).unwrap_or_default();
        let life = String::from_utf8_lossy(life);
        let complaint = life.lines().rev().find(|line| line.starts_with("everhook: ")).or(life.lines().next_back());
        without_numbers(complaint.unwrap_or("it said nothing"))
    }

    /// Everything it has logged, over all its lives.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.file("log")).unwrap_or_default()).into_owned()
    }

    fn file(&self, end: &str) -> PathBuf {
        Path::join(&self.launch.folder, format!("node-{}.{end}", self.number))
    }
}

/// Ports, process ids and times say nothing about the kind of an end.
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
