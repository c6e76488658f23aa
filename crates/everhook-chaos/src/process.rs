//! Sends signals to processes that this tool started, by their ids.

use anyhow::{Context, bail};
use tokio::process::Command;

/// Sends a signal to processes. A process that has already ended is not an error.
pub(crate) async fn signal(name: &str, ids: &[u32]) -> anyhow::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids = ids.iter().map(u32::to_string);
    let mut command = Command::new("kill");
    command.arg(format!("-{name}")).args(ids).stderr(std::process::Stdio::null());
    command.status().await.context("could not run kill")?;
    Ok(())
}

/// Returns a process and its children, the process first.
pub(crate) fn family(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children = ids.filter(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1).and_then(|id| id.parse().ok()) == Some(parent)
    });
    std::iter::once(parent).chain(children).collect()
}

/// Runs a program to its end; fails if the program does.
pub(crate) async fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(std::process::Stdio::null()).output().await.context("could not start a program")?;
    if !output.status.success() {
        bail!("{:?}: {}", command.as_std(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
