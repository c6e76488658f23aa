//! `cargo xtask package`: a Debian package with the binary, its manual, completions and a systemd service.
//!
//! The package is put together by `dpkg-deb` from files in `deploy/`, so that it needs no tool of Debian's own build
//! system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::sbom;
use crate::workspace::Workspace;

const SERVICE: &str = "deploy/systemd/everhook.service";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/everhook"),
    ("zsh", "usr/share/zsh/vendor-completions/_everhook"),
    ("fish", "usr/share/fish/vendor_completions.d/everhook.fish"),
];

/// Build a Debian package in target/package.
///
/// The package has the release binary, its manual pages, completions, settings in /etc/everhook and a systemd service.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Package this binary instead of building one.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Write the package to this folder [default: target/package].
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => build(&workspace)?,
    };
    let output = arguments.output.clone().unwrap_or_else(|| workspace.target().join("package"));
    let architecture = output_of(Command::new("dpkg").arg("--print-architecture"))?;
    let version = version(&binary)?;
    let name = format!("everhook_{version}_{architecture}");
    let root = output.join(&name);
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("could not delete {}", root.display()))?;
    }
    fill(&workspace, &root, &binary)?;
    control(&workspace, &root, &Control { version, architecture })?;
    let package = output.join(format!("{name}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(&root).arg(&package);
    check(build.stdout(Stdio::null()))?;
    fs::remove_dir_all(&root).context("could not delete the staging folder")?;
    println!("{}", package.display());
    Ok(ExitCode::SUCCESS)
}

fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    if is_auditable(workspace) {
        cargo.arg("auditable");
    } else {
        println!("the binary does not list its dependencies: `cargo install --locked cargo-auditable` adds the list");
    }
    check(cargo.args(["build", "--profile", "dist", "--locked", "--bin", "everhook"]).stdin(Stdio::null()))?;
    Ok(workspace.target().join("dist/everhook"))
}

/// Whether cargo-auditable is installed.
fn is_auditable(workspace: &Workspace) -> bool {
    let mut command = workspace.cargo();
    let status = command.args(["auditable", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The version that the binary reports: `everhook 0.1.0`.
fn version(binary: &Path) -> Result<String> {
    let text = output_of(Command::new(binary).arg("--version"))?;
    let version = text.strip_prefix("everhook ").with_context(|| format!("unexpected version {text:?}"))?;
    Ok(version.to_owned())
}

/// Copies the files of the package.
fn fill(workspace: &Workspace, root: &Path, binary: &Path) -> Result<()> {
    let deploy = |name: &str| workspace.root.join(name);
    copy(binary, &root.join("usr/bin/everhook"), 0o755)?;
    // The kept section has the list of dependencies that cargo-auditable adds.
    let strip = ["--strip-unneeded", "--keep-section=.dep-v0"];
    check(Command::new("strip").args(strip).arg(root.join("usr/bin/everhook")))?;
    copy(&deploy(SERVICE), &root.join("usr/lib/systemd/system/everhook.service"), 0o644)?;
    copy(&deploy("deploy/debian/everhook.toml"), &root.join("etc/everhook/everhook.toml"), 0o640)?;
    copy(&deploy("LICENSE"), &root.join("usr/share/doc/everhook/copyright"), 0o644)?;
    write(&root.join("usr/share/doc/everhook/sbom.cdx.json"), sbom::document(workspace)?.as_bytes(), 0o644)?;
    copy(&deploy("CHANGELOG.md"), &root.join("usr/share/doc/everhook/changelog"), 0o644)?;
    let manual = root.join("usr/share/man/man1");
    fs::create_dir_all(&manual)?;
    check(Command::new(binary).args(["man", "--folder"]).arg(&manual))?;
    check(
        Command::new("sh")
            .args(["-c", "gzip --best --no-name \"$1\"/*.1 \"$2\"", "sh"])
            .args([&manual, &root.join("usr/share/doc/everhook/changelog")]),
    )?;
    for (shell, place) in COMPLETIONS {
        let script = Command::new(binary).args(["completions", shell]).output().context("could not run the binary")?;
        write(&root.join(place), &script.stdout, 0o644)?;
    }
    Ok(())
}

struct Control {
    version: String,
    architecture: String,
}

/// Writes the description of the package and its scripts.
fn control(workspace: &Workspace, root: &Path, Control { version, architecture }: &Control) -> Result<()> {
    // The C library of the machine that has linked the binary.
    let libc = output_of(Command::new("dpkg-query").args(["--show", "--showformat=${Version}", "libc6"]))?;
    let libc = libc.split('-').next().unwrap_or(&libc);
    let control = format!(
        "Package: everhook\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The Everhook developers <everhook@localhost>\n\
         Section: net\n\
         Priority: optional\n\
         Depends: libc6 (>= {libc}), libgcc-s1, ca-certificates, adduser\n\
         Suggests: postgresql\n\
         Description: durable webhooks, jobs and once-only notifications\n\
        \x20Everhook accepts messages and jobs, delivers the messages, runs the jobs, and\n\
        \x20loses neither. It stores everything in an embedded database, or in a\n\
        \x20PostgreSQL that any number of replicas share.\n"
    );
    write(&root.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    write(&root.join("DEBIAN/conffiles"), b"/etc/everhook/everhook.toml\n", 0o644)?;
    for script in SCRIPTS {
        copy(&workspace.root.join("deploy/debian").join(script), &root.join("DEBIAN").join(script), 0o755)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("could not read {}", from.display()))?;
    write(to, &bytes, mode)
}

fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let folder = to.parent().context("a file of the package has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    fs::write(to, bytes).with_context(|| format!("could not write {}", to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn check(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not run {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{} failed (see above)", command.get_program().display());
    }
    Ok(())
}

fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("could not run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", command.get_program().display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
