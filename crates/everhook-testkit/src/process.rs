//! A process of the real binary that is started, signalled, killed and restarted.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::rng::{self, Rng};
use crate::wait::Deadline;

/// The interval of checks for the end of a process.
const POLL: Duration = Duration::from_millis(10);

/// A command without the environment variables of the shell.
#[expect(clippy::disallowed_methods, reason = "settings of the shell must not reach the binary under test")]
pub fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("EVERHOOK_") {
            command.env_remove(name);
        }
    }
    command
}

/// Returns a port for a program that cannot choose one itself.
///
/// Connections get their own ports from a range above these, so that none of them takes the port before the program
/// does, or while the program is restarted.
pub fn free_port() -> io::Result<u16> {
    const PORTS: Range<u16> = 10_000..32_000;
    let random = Rng::new(rng::seed());
    loop {
        let port = PORTS.start + u16::try_from(random.below(PORTS.len())).expect("a port");
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the address in the first output line of a server.
pub fn address_in(greeting: &str) -> Option<&str> {
    let (_, url) = greeting.split_once("listens on ")?;
    url.split_once("://").map(|(_, address)| address.trim())
}

/// A running process. Dropping the value kills it if it still runs.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Mutex<mpsc::Receiver<String>>,
}

impl Process {
    /// Starts a process without input that logs to `log`; its output is read line by line.
    pub fn start(command: &mut Command, log: impl Into<Stdio>) -> io::Result<Process> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (send, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Ok(Process { child, lines: Mutex::new(lines) })
    }

    /// Returns the next output line. Blocks for at most `patience`.
    pub fn line(&self, patience: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.lock().expect("nothing panics while it holds this lock").recv_timeout(patience)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the log of a process that logs to a pipe.
    pub fn take_log(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Returns the exit status if the process has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for the end of the process in an event loop. Returns none if it still runs after `patience`.
    pub async fn wait(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let give_up = Deadline::new(patience);
        loop {
            let ended = self.ended()?;
            if ended.is_some() || give_up.is_over() {
                return Ok(ended);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends a signal, such as TERM, STOP or CONT. A process that has already ended is not an error.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let mut kill = Command::new("kill");
        kill.args([&format!("-{name}"), &self.id().to_string()]).stderr(Stdio::null());
        kill.status().map(drop)
    }

    /// Kills the process like a power failure, and waits until it is gone.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
