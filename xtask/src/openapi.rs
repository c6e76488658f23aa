//! `cargo xtask openapi`: writes `openapi.json` from the handlers, or checks that it is current.

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// Write openapi.json from the handlers.
///
/// The binary generates the document. It is committed, so that API changes show in review.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing, and fail if openapi.json differs from the handlers.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let document = generate(&workspace)?;
    let path = workspace.root.join("openapi.json");
    let committed = fs::read(&path).unwrap_or_default();
    if committed == document {
        println!("openapi.json is current");
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.check {
        bail!("openapi.json differs from the handlers: run `cargo xtask openapi` and commit the result");
    }
    fs::write(&path, document).context("could not write openapi.json")?;
    println!("wrote openapi.json");
    Ok(ExitCode::SUCCESS)
}

fn generate(workspace: &Workspace) -> Result<Vec<u8>> {
    let built = workspace.cargo().args(["build", "--bin", "everhook"]).stdin(Stdio::null()).status()?;
    if !built.success() {
        bail!("the build failed (see above)");
    }
    let output = Command::new(workspace.binary())
        .arg("openapi")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("could not run the binary")?;
    if !output.status.success() || output.stdout.is_empty() {
        bail!("`everhook openapi` printed no document (see above)");
    }
    Ok(output.stdout)
}
