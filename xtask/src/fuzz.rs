//! `cargo xtask fuzz`: searches for inputs that break a parser.

use std::fs;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// Search for inputs that make a parser of outside input panic or hang.
///
/// Guided by coverage (cargo-fuzz with libFuzzer), from the corpus in fuzz/corpus. Installs cargo-fuzz if it is
/// missing. The tests run the same parsers with a short list of mutated samples.
///
///     cargo xtask fuzz                 one minute
///     cargo xtask fuzz --seconds 3600  an hour
///
/// A found input is kept in fuzz/artifacts. Show it with `cargo fuzz fmt parsers <file>`, and add it to the samples in
/// crates/everhook-tests/tests/node/fuzz/targets.rs.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Length of the search.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let has = workspace.cargo().args(["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !has.success() {
        let installed = workspace.cargo().args(["install", "--locked", "cargo-fuzz"]).status()?;
        if !installed.success() {
            bail!("could not install cargo-fuzz (see above)");
        }
    }
    let folder = workspace.root.join("fuzz");
    // New inputs of a search stay out of the repository. The corpus is read as well.
    let found = workspace.target().join("fuzz-found");
    fs::create_dir_all(&found).with_context(|| format!("could not create {}", found.display()))?;
    let seconds = format!("-max_total_time={}", arguments.seconds);
    let status = workspace
        .cargo()
        .args(["fuzz", "run", "--fuzz-dir"])
        .arg(&folder)
        // Memory errors cannot happen: no unsafe code.
        .args(["--sanitizer", "none", "parsers"])
        .arg(&found)
        .arg(folder.join("corpus"))
        .args(["--", &seconds, "-max_len=4096", "-timeout=5", "-print_final_stats=1"])
        .env("CARGO_TARGET_DIR", workspace.target().join("fuzz"))
        // The flags of the instrumentation are not stable.
        .env("RUSTC_BOOTSTRAP", "1")
        .stdin(Stdio::null())
        .status()
        .context("could not run cargo fuzz")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
