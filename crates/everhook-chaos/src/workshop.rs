//! The folder of a run, and the cleanup of all its processes.
//!
//! A small shell process, the guardian, waits on a pipe that only this process holds open. However this process ends,
//! the guardian then kills all processes that have the folder's name in their environment. It also removes the folder,
//! unless the folder is kept.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;

/// The variable by which the guardian finds the processes of a run.
pub(crate) const MARK: &str = "CHAOS_FOLDER";

/// The script of the guardian. `$1` is the folder. The guardian's own environment does not contain the variable.
const GUARDIAN: &str = r#"
read -r order
for process in /proc/[0-9]*; do
    if tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qxF "CHAOS_FOLDER=$1"; then
        kill -9 "${process#/proc/}" 2>/dev/null
    fi
done
if [ "$order" != keep ]; then sleep 0.2; rm -rf "$1"; fi
"#;

pub struct Workshop {
    folder: PathBuf,
    guardian: Child,
    leash: Option<ChildStdin>,
    keep: bool,
}

impl Workshop {
    /// Creates a folder with its guardian.
    pub fn open() -> anyhow::Result<Workshop> {
        let folder = tempfile::Builder::new().prefix("everhook-chaos-").tempdir().context("could not make a folder")?;
        let folder = folder.keep();
        // The user of the database needs access to its own folders inside this one.
        std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARDIAN, "everhook-chaos-guardian"]).arg(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut guardian = command.spawn().context("could not start a shell")?;
        let leash = guardian.stdin.take();
        Ok(Workshop { folder, guardian, leash, keep: false })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the folder for inspection.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if let Some(mut leash) = self.leash.take() {
            use std::io::Write;
            let _ = leash.write_all(if self.keep { b"keep\n" } else { b"\n" });
        }
        let _ = self.guardian.wait();
    }
}
