//! The folder of a run, and the promise that nothing of the run outlives it.
//!
//! A small shell process, the guardian, waits on a pipe that only this process holds open. However we end, it kills every
//! process that carries the folder's name in its environment, and removes the folder unless it is to be kept.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;

/// By this variable the guardian knows the processes of a run.
pub(crate) const MARK: &str = "CHAOS_FOLDER";

/// `$1` folder. The mark is not in the guardian's own environment.
const GUARDIAN: &str = r#"
read -r order
for process in /proc/[0-9]*; do
    if tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qxF "CHAOS_FOLDER=$1"; then
        kill -9 "${process#/proc/}" 2>/dev/null
    fi
done
if [ "$order" != keep ]; then sleep 0.2; rm -rf "$1"; fi
"#;

/// The folder of a run.
pub struct Workshop {
    folder: PathBuf,
    guardian: Child,
    leash: Option<ChildStdin>,
    keep: bool,
}

impl Workshop {
    /// A new folder with its guardian.
    pub fn open() -> anyhow::Result<Workshop> {
        let folder = tempfile::Builder::new().prefix("everhook-chaos-").tempdir().context("could not make a folder")?;
        let folder = folder.keep();
        // The database's user has to get at its own folders below.
        std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARDIAN, "everhook-chaos-guardian"]).arg(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut guardian = command.spawn().context("could not start a shell")?;
        let leash = guardian.stdin.take();
        Ok(Workshop { folder, guardian, leash, keep: false })
    }

    /// Where everything of the run is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves the folder, for someone to look into.
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
