//! `cargo xtask mutants`: breaks one promise at a time and expects the tests to find out.
//!
//! A mutant is `mutants/NAME.patch`. Its header says in words which promise the patch breaks, and names on `Fails:`
//! lines the tests that must fail: a test program and a test in it. Every mutant is applied to a copy of the tree below
//! the build folder, built there and tested; the tree itself is never changed. `cargo xtask test` only checks that
//! every patch still applies.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::count::{self, Counts};
use crate::postgres::{Cluster, Files};
use crate::workspace::Workspace;

/// Where the patches are, in the workspace.
const FOLDER: &str = "mutants";
/// The line of a header that names a test.
const FAILS: &str = "Fails: ";

/// Break one promise at a time, and expect the tests to find out.
///
/// Each mutant costs a build of the crates that it changes; the first one builds everything.
///
///     cargo xtask mutants                        every mutant
///     cargo xtask mutants settle-without-epoch   only this one
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Mutants by name; all of them if none is named.
    names: Vec<String>,
}

/// A promise to break.
struct Mutant {
    name: String,
    patch: PathBuf,
    /// A test program and a test in it.
    fails: Vec<(String, String)>,
}

/// `cargo xtask mutants`.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let mutants = chosen(read_all(&workspace)?, &arguments.names)?;
    let _cluster = match env::var_os("EVERHOOK_TEST_DATABASE") {
        Some(_) => None,
        None => Some(Cluster::start(Files::InMemory)?),
    };
    let database = _cluster.as_ref().map(|cluster| cluster.url().to_owned());
    let copy = Copy::new(&workspace)?;
    let mut survivors = Vec::new();
    for mutant in &mutants {
        println!("==> {}", mutant.name);
        copy.restore()?;
        apply(&copy.tree, &mutant.patch, &[])?;
        survivors.extend(copy.survived(mutant, database.as_deref())?);
    }
    copy.restore()?;
    println!("\n==> summary: {} mutants, {} tests did not find theirs", mutants.len(), survivors.len());
    for survivor in &survivors {
        println!("{survivor}");
    }
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks that every patch applies to the tree as it is and names tests that exist; a mutant counts as one test.
pub(crate) fn check(workspace: &Workspace) -> Result<Counts> {
    let mut counts = Counts::default();
    let sources = list_files(&workspace.root)?;
    let sources = sources.iter().filter(|path| path.ends_with(".rs"));
    let sources = sources.filter_map(|path| fs::read_to_string(workspace.root.join(path)).ok()).collect::<String>();
    for mutant in read_all(workspace)? {
        let is_unknown = |(_, test): &&(String, String)| !sources.contains(last_part(test));
        let checked = match mutant.fails.iter().find(is_unknown) {
            Some((_, test)) => Err(anyhow::anyhow!("there is no test {test}")),
            None => apply(&workspace.root, &mutant.patch, &["--check"]),
        };
        match checked {
            Ok(()) => counts.passed += 1,
            Err(error) => {
                counts.failed += 1;
                println!("FAIL  mutant {}: {error:#}", mutant.name);
            }
        }
    }
    Ok(counts)
}

fn last_part(test: &str) -> &str {
    test.rsplit("::").next().unwrap_or(test)
}

fn chosen(all: Vec<Mutant>, names: &[String]) -> Result<Vec<Mutant>> {
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|mutant| mutant.name != **name)) {
        let known: Vec<_> = all.iter().map(|mutant| mutant.name.as_str()).collect();
        bail!("there is no mutant {unknown}, but {}", known.join(", "));
    }
    let is_chosen = |mutant: &Mutant| names.is_empty() || names.contains(&mutant.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Every mutant, by name.
fn read_all(workspace: &Workspace) -> Result<Vec<Mutant>> {
    let folder = workspace.root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))?;
    let mut patches = Vec::new();
    for entry in entries {
        patches.push(entry?.path());
    }
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    patches.into_iter().map(read).collect()
}

fn read(patch: PathBuf) -> Result<Mutant> {
    let text = fs::read_to_string(&patch).with_context(|| format!("could not read {}", patch.display()))?;
    let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let fails = parse_header(&text).with_context(|| format!("the header of mutant {name}"))?;
    Ok(Mutant { name, patch, fails })
}

/// The tests that the text before the first `diff` names.
fn parse_header(text: &str) -> Result<Vec<(String, String)>> {
    let header = text.lines().take_while(|line| !line.starts_with("diff "));
    let mut fails = Vec::new();
    for line in header.filter_map(|line| line.strip_prefix(FAILS)) {
        let (program, test) = line.split_once(' ').context("a test program and a test are expected after `Fails:`")?;
        fails.push((program.to_owned(), test.to_owned()));
    }
    ensure!(!fails.is_empty(), "no `{}` line names a test", FAILS.trim());
    Ok(fails)
}

fn apply(folder: &Path, patch: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new("git");
    // The copy is inside a repository, but not part of it: the paths of the patch are relative to its own root.
    command.current_dir(folder).env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
    let output = command.arg("apply").args(options).arg(patch).output().context("could not start git")?;
    ensure!(output.status.success(), "the patch does not apply: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// The files of the tree that are or could be committed.
fn list_files(root: &Path) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output = command.stderr(Stdio::inherit()).output().context("could not start git")?;
    ensure!(output.status.success(), "git could not list the files of the tree");
    let files = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
    Ok(files.lines().filter(|path| root.join(path).is_file()).map(str::to_owned).collect())
}

/// A copy of the tree, with a build folder of its own that lasts from mutant to mutant.
struct Copy<'a> {
    workspace: &'a Workspace,
    tree: PathBuf,
    target: PathBuf,
}

impl Copy<'_> {
    fn new(workspace: &Workspace) -> Result<Copy<'_>> {
        let folder = workspace.target().join("mutants");
        let copy = Copy { workspace, tree: folder.join("tree"), target: folder.join("target") };
        fs::create_dir_all(&copy.tree).with_context(|| format!("could not make {}", copy.tree.display()))?;
        Ok(copy)
    }

    /// Makes the copy equal to the tree. Files that are equal already stay untouched, so that cargo does not build them
    /// anew.
    fn restore(&self) -> Result<()> {
        let wanted = list_files(&self.workspace.root)?;
        for path in &wanted {
            let (from, to) = (self.workspace.root.join(path), self.tree.join(path));
            let bytes = fs::read(&from).with_context(|| format!("could not read {}", from.display()))?;
            if fs::read(&to).is_ok_and(|old| old == bytes) {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            fs::write(&to, bytes).with_context(|| format!("could not write {}", to.display()))?;
        }
        for stale in files_below(&self.tree, Path::new(""))? {
            if !wanted.iter().any(|path| Path::new(path) == stale) {
                fs::remove_file(self.tree.join(&stale))?;
            }
        }
        Ok(())
    }

    /// Builds and runs the tests that have to fail; describes those that did not.
    fn survived(&self, mutant: &Mutant, database: Option<&str>) -> Result<Vec<String>> {
        let cargo = || {
            let mut command = self.workspace.cargo();
            command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
            command.envs(database.map(|url| ("EVERHOOK_TEST_DATABASE", url)));
            command.args(["test", "--workspace", "--quiet"]);
            command
        };
        let mut build = cargo();
        for (program, _) in &mutant.fails {
            build.args(["--test", program]);
        }
        let built = build.arg("--no-run").stdin(Stdio::null()).status().context("could not start cargo")?;
        ensure!(built.success(), "mutant {} does not compile (see above)", mutant.name);
        let mut survived = Vec::new();
        for (program, test) in &mutant.fails {
            let mut command = cargo();
            command.args(["--test", program, "--", "--exact", test]).stderr(Stdio::null());
            let counts = count::cargo_test_quietly(&mut command)?;
            // A test that runs itself again in another process prints the result of that process, too.
            let is_found = counts.passed == 0 && counts.failed > 0;
            println!("{} {program} {test}", if is_found { "found by" } else { "SURVIVES" });
            if !is_found {
                survived.push(format!("{} survives {program} {test} ({counts})", mutant.name));
            }
        }
        Ok(survived)
    }
}

/// The files below `root`, relative to it.
fn files_below(root: &Path, inside: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(inside))? {
        let entry = entry?;
        let path = inside.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files_below(root, &path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_its_tests() {
        let text = "Why.\n\nFails: stores a::b\nFails: it c\ndiff --git a/x b/x\nFails: no d\n";
        let test = |program: &str, test: &str| (program.to_owned(), test.to_owned());
        assert_eq!(parse_header(text).unwrap(), [test("stores", "a::b"), test("it", "c")]);
        assert!(parse_header("Why.\ndiff\n").is_err());
        assert!(parse_header("Fails: one\n").is_err());
    }
}
