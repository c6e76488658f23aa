//! The real binary as a process that is started, signalled, killed and started again.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::wait::Deadline;

/// How often a process is looked at whose end is awaited.
const POLL: Duration = Duration::from_millis(10);

/// A binary with the settings of nobody's shell.
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

/// The address in the greeting of a server.
pub fn address_in(greeting: &str) -> Option<&str> {
    greeting.split_once("listens on http://").map(|(_, address)| address.trim())
}

/// A running process. It ends with this value, killed if need be.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Mutex<mpsc::Receiver<String>>,
}

impl Process {
    /// Starts a process that has nothing to read and logs there; what it prints is read line by line.
    pub fn start(command: &mut Command, log: impl Into<Stdio>) -> io::Result<Process> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (send, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Ok(Process { child, lines: Mutex::new(lines) })
    }

    /// The next line that it prints. Blocks for so long at most.
    pub fn line(&self, patience: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.lock().expect("nothing panics while it holds this lock").recv_timeout(patience)
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The log of a process that logs to a pipe.
    pub fn take_log(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits in an event loop for so long at most until it has ended; none if it has not.
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

    /// Sends a signal, such as TERM, STOP or CONT. That it has ended meanwhile is no error.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let mut kill = Command::new("kill");
        kill.args([&format!("-{name}"), &self.id().to_string()]).stderr(Stdio::null());
        kill.status().map(drop)
    }

    /// Ends it as a power cut would: kill -9, and nothing is left of it when this returns.
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
