//! Paths of the workspace and its build output, and cargo commands inside a task.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Paths of the workspace, found at run time so that a moved or copied clone works at once.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The folder of the test profile's binaries: `target/debug`.
    binaries: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let here = env::current_dir().context("could not read the current directory")?;
        let Some(root) = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file()) else {
            bail!("run `cargo xtask` inside a clone of Everhook: no xtask/Cargo.toml above {}", here.display());
        };
        let task = env::current_exe().context("could not find the path of the running task")?;
        let binaries = task.parent().context("the running task has no folder")?;
        Ok(Self { root: root.to_owned(), binaries: binaries.to_owned() })
    }

    /// Cargo's build folder. `cargo clean` removes everything that a task caches there.
    pub(crate) fn target(&self) -> PathBuf {
        self.binaries.parent().unwrap_or(&self.binaries).to_owned()
    }

    pub(crate) fn binary(&self) -> PathBuf {
        self.binaries.join("everhook")
    }

    /// Returns a cargo command in the workspace root that compiles the workspace with clippy, so that one compilation
    /// also lints. Every warning is an error. Cargo keeps the results apart from those of the plain compiler.
    pub(crate) fn linting_cargo(&self) -> Result<Command> {
        let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(&self.root).output();
        let sysroot = String::from_utf8(output.context("could not start rustc")?.stdout)?;
        let driver = PathBuf::from(sysroot.trim()).join("bin/clippy-driver");
        if !driver.is_file() {
            bail!("clippy is missing: `rustup component add clippy`");
        }
        let mut command = self.cargo();
        // The form in which `cargo clippy -- -D warnings` passes its arguments.
        let arguments = ["-D", "warnings"].map(|argument| format!("{argument}__CLIPPY_HACKERY__"));
        command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", arguments.concat());
        Ok(command)
    }

    /// Returns a cargo command in the workspace root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root);
        // `cargo run` sets these variables for the xtask package. Build scripts that watch them would see a change and
        // compile their crates again.
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(&*name);
            }
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Output;

    use super::*;

    /// Builds a program with the linting compiler.
    fn build(source: &str) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let manifest = "[workspace]\n[package]\nname = \"linted\"\nedition = \"2024\"\n";
        fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/main.rs"), source).unwrap();
        let mut command = Workspace::find().unwrap().linting_cargo().unwrap();
        let command = command.args(["build", "--offline", "--target-dir"]).arg(folder.path().join("target"));
        command.current_dir(folder.path()).output().unwrap()
    }

    #[test]
    fn a_warning_of_clippy_fails_the_build() {
        let clean = build("fn main() {}");
        assert!(clean.status.success(), "{}", String::from_utf8_lossy(&clean.stderr));
        let linted = build("fn main() {\n    let one: u8 = 1;\n    let _ = one.clone();\n}");
        let errors = String::from_utf8_lossy(&linted.stderr);
        assert!(!linted.status.success() && errors.contains("clone_on_copy"), "{errors}");
    }
}
