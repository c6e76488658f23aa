//! The real binary as a process that tests start, stop, kill and restart.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;

use everhook_testkit::process::{self, Process};
use everhook_testkit::wait::{Deadline, PATIENCE, until, until_true};
use tempfile::TempDir;

use crate::binary::client::{Address, Client, api_key};
use crate::binary::environment::{self, everhook};
use crate::binary::postgres::Database;

/// The store of a server. Several servers may share one.
pub(crate) enum Backend {
    Sqlite(TempDir),
    Postgres(Database),
    /// A database behind a proxy, or in a test's own cluster.
    PostgresAt(String),
}

impl Backend {
    pub(crate) fn sqlite() -> Arc<Backend> {
        Arc::new(Backend::Sqlite(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn postgres() -> Arc<Backend> {
        Arc::new(Backend::Postgres(Database::create()))
    }

    pub(crate) fn postgres_at(url: String) -> Arc<Backend> {
        Arc::new(Backend::PostgresAt(url))
    }

    fn setting(&self) -> (&'static str, &str) {
        match self {
            Backend::Sqlite(folder) => ("EVERHOOK_DATA", folder.path().to_str().unwrap()),
            Backend::Postgres(database) => ("EVERHOOK_DATABASE", &database.url),
            Backend::PostgresAt(url) => ("EVERHOOK_DATABASE", url),
        }
    }

    /// Runs a command of the binary on this store and returns its output.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments);
        assert!(output.status.success(), "everhook {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Prepares a command of the binary on this store.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let (name, value) = self.setting();
        let mut command = everhook();
        command.args(arguments).env(name, value).stdin(Stdio::null());
        command
    }

    /// Runs a command that may fail.
    pub(crate) fn try_run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

/// Defines each named function, which takes a store, as a test on SQLite and as a test on PostgreSQL.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name($crate::binary::server::Backend::sqlite()); })*
        }
        mod postgres {
            $(#[test] fn $name() { super::$name($crate::binary::server::Backend::postgres()); })*
        }
    };
}
pub(crate) use on_both_stores;

/// A server that can be killed and restarted on the same store. Prints its log when the test fails.
pub(crate) struct Server {
    binary: PathBuf,
    backend: Arc<Backend>,
    settings: Vec<(String, String)>,
    /// Content of its configuration file, if it has one.
    file: Option<String>,
    folder: TempDir,
    address: Address,
    /// Address for health and metrics, if it has such a listener.
    ops: Address,
    key: String,
    process: Option<Process>,
    /// The greeting of the process was read.
    serves: bool,
    log: Log,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    File,
    /// A pipe that is not read until the test does so.
    Pipe,
}

impl Server {
    /// Starts a server with these settings (without `EVERHOOK_`) and waits until it serves.
    #[track_caller]
    pub(crate) fn start(backend: &Arc<Backend>, settings: &[(&str, &str)]) -> Server {
        let mut server = Server::prepare(backend, settings);
        server.start_again();
        server
    }

    /// Starts a server with a configuration file.
    #[track_caller]
    pub(crate) fn start_with_file(backend: &Arc<Backend>, settings: &[(&str, &str)], file: String) -> Server {
        let mut server = Server::prepare(backend, settings);
        server.file = Some(file);
        server.start_again();
        server
    }

    /// Prepares a server without starting its process.
    pub(crate) fn prepare(backend: &Arc<Backend>, settings: &[(&str, &str)]) -> Server {
        let defaults = [("LISTEN", "127.0.0.1:0"), ("EGRESS_ALLOW", "127.0.0.0/8")];
        let settings = defaults.iter().chain(settings);
        Server {
            binary: environment::binary(),
            backend: Arc::clone(backend),
            settings: settings.map(|(name, value)| (format!("EVERHOOK_{name}"), (*value).to_owned())).collect(),
            file: None,
            folder: tempfile::tempdir().unwrap(),
            address: Address::default(),
            ops: Address::default(),
            key: api_key(),
            process: None,
            serves: false,
            log: Log::File,
        }
    }

    /// Prepares another server on the same store with the same settings and first key.
    pub(crate) fn another(&self) -> Server {
        Server {
            binary: self.binary.clone(),
            backend: Arc::clone(&self.backend),
            settings: self.settings.clone(),
            file: self.file.clone(),
            folder: tempfile::tempdir().unwrap(),
            address: Address::default(),
            ops: Address::default(),
            key: self.key.clone(),
            process: None,
            serves: false,
            log: self.log,
        }
    }

    /// Starts another server on the same store with the same settings and first key.
    #[track_caller]
    pub(crate) fn start_another(&self) -> Server {
        let mut server = self.another();
        server.start_again();
        server
    }

    /// Prepares another server with additional or changed settings.
    pub(crate) fn another_with(&self, settings: &[(&str, &str)]) -> Server {
        let mut server = self.another();
        server.settings.extend(settings.iter().map(|(name, value)| (format!("EVERHOOK_{name}"), (*value).to_owned())));
        server
    }

    /// Replaces the binary of a server that has not been started.
    pub(crate) fn of(mut self, binary: PathBuf) -> Server {
        assert!(self.process.is_none(), "it runs already");
        self.binary = binary;
        self
    }

    /// Makes the log a pipe that is not read.
    pub(crate) fn with_unread_log(mut self) -> Server {
        self.log = Log::Pipe;
        self
    }

    /// Starts a process on the same store with the same settings, and waits until it serves.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        self.spawn();
        self.wait_until_serving();
    }

    /// Starts a process without waiting.
    pub(crate) fn spawn(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let log = match self.log {
            Log::File => OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap().into(),
            Log::Pipe => Stdio::piped(),
        };
        let (name, value) = self.backend.setting();
        let mut command = process::command(&self.binary);
        command.arg("serve");
        if let Some(text) = &self.file {
            let path = self.folder.path().join("everhook.toml");
            fs::write(&path, text).unwrap();
            command.arg("--config").arg(path);
        }
        command
            .current_dir(self.folder.path())
            .env(name, value)
            // Most tests have no load balancer to wait for.
            .env("EVERHOOK_STOP_DELAY_SECONDS", "0")
            .env("EVERHOOK_BOOTSTRAP_KEY", &self.key)
            .envs(self.settings.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(&mut command, log).expect("the binary starts"));
        self.serves = false;
    }

    /// Waits for the greeting, and stores the address.
    #[track_caller]
    pub(crate) fn wait_until_serving(&mut self) {
        if self.serves {
            return;
        }
        let give_up = Deadline::new(PATIENCE);
        let (mut address, mut ops) = (None, None);
        let has_ops = self.settings.iter().any(|(name, _)| name == "EVERHOOK_LISTEN_OPS");
        while address.is_none() || (has_ops && ops.is_none()) {
            let process = self.process.as_ref().expect("it was started");
            let line = match process.line(give_up.left()) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => panic!("the server did not come up\n{}", self.log()),
                Err(RecvTimeoutError::Disconnected) => panic!("the server ended at its start\n{}", self.log()),
            };
            if let Some(listens) = process::address_in(&line) {
                address = Some(listens.to_owned());
            } else if let Some(listens) = line.strip_prefix("health and metrics: http://") {
                ops = Some(listens.trim().to_owned());
            }
        }
        self.address.set(address.unwrap());
        self.ops.set(ops.unwrap_or_default());
        self.serves = true;
    }

    /// Returns a client with the first key. It follows the server across restarts.
    pub(crate) fn client(&self) -> Client {
        self.client_with(&self.key)
    }

    pub(crate) fn client_with(&self, key: &str) -> Client {
        Client::new(self.address.clone(), key)
    }

    /// Returns a client of the listener for health and metrics, without a key.
    pub(crate) fn ops(&self) -> Client {
        Client::new(self.ops.clone(), "")
    }

    /// Returns the unread log of a server.
    pub(crate) fn take_log(&mut self) -> impl Read + use<> {
        self.process.as_mut().expect("it runs").take_log().expect("its log is a pipe")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address.get())
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The working directory, which contains the log.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the process with `kill -9`, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process.take().expect("it runs").kill().unwrap();
    }

    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Stops the process until `resume`, like a swapping or migrating machine.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        self.process.as_ref().expect("it runs").signal(name).unwrap();
    }

    /// Waits until the process has exited on its own.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = until("the server has ended", || self.process.as_mut().expect("it was started").ended().unwrap());
        self.process = None;
        status
    }

    /// The whole lines in the log of all processes of this server. A thread of the server writes them, so that an event
    /// is logged a moment after it happened; see [`Server::wait_for_log`].
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(self.log_file()).unwrap_or_default();
        // The last line may be under way.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Waits until the log contains this text.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) {
        until_true(&format!("the log contains {text:?}"), || self.log().contains(text));
    }

    /// Counts a text in the log from byte `start` on, for events that only the log shows.
    pub(crate) fn logged_since(&self, start: u64, what: &str) -> usize {
        let mut file = fs::File::open(self.log_file()).unwrap();
        file.seek(SeekFrom::Start(start)).unwrap();
        // The log may end within a character.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).matches(what).count()
    }

    pub(crate) fn log_length(&self) -> u64 {
        fs::metadata(self.log_file()).map_or(0, |file| file.len())
    }

    fn log_file(&self) -> PathBuf {
        Path::join(self.folder.path(), "log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.take());
        if thread::panicking() {
            eprintln!("--- the server's log ---\n{}--- end of the log ---", tail(&self.log()));
        }
    }
}

/// Returns the end of a log, short enough to read.
fn tail(log: &str) -> String {
    const LINES_MAX: usize = 300;
    let lines = log.lines().collect::<Vec<_>>();
    let mut text = String::new();
    if lines.len() > LINES_MAX {
        text += &format!("({} earlier lines left out)\n", lines.len() - LINES_MAX);
    }
    for line in &lines[lines.len().saturating_sub(LINES_MAX)..] {
        text += line;
        text.push('\n');
    }
    text
}
