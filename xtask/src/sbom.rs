//! `cargo xtask sbom`: the packages that the binary is built from, as CycloneDX JSON.
//!
//! The list follows from `cargo metadata` and `Cargo.lock`, so that it needs no other tool. It is the list for the
//! platform of this machine, without packages of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::workspace::Workspace;

/// The package of the binary.
const ROOT: &str = "everhook";

pub(crate) fn run() -> Result<ExitCode> {
    println!("{}", document(&Workspace::find()?)?);
    Ok(ExitCode::SUCCESS)
}

/// Returns the list of packages as CycloneDX JSON.
pub(crate) fn document(workspace: &Workspace) -> Result<String> {
    let mut cargo = workspace.cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host()?]);
    let metadata = serde_json::from_slice(&output_of(cargo)?).context("cargo metadata is not JSON")?;
    Ok(format!("{:#}", describe(&metadata)?))
}

/// The platform of this machine, such as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String> {
    let mut rustc = Command::new("rustc");
    rustc.arg("-vV");
    let described = String::from_utf8(output_of(rustc)?).context("rustc prints no text")?;
    let host = described.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

fn output_of(mut command: Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("could not start {command:?}"))?;
    anyhow::ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

fn describe(metadata: &Value) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let depends: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| (text(&node["id"]), list(&node["deps"]).iter().filter(|it| ships(it)).map(target).collect()))
        .collect();
    let root = packages.iter().find(|(_, package)| package["name"] == ROOT).map(|(id, _)| id.clone());
    let root = root.with_context(|| format!("the workspace has no package {ROOT}"))?;
    let (mut found, mut next) = (BTreeSet::new(), vec![root.clone()]);
    while let Some(id) = next.pop() {
        next.extend(depends.get(&id).into_iter().flatten().filter(|id| !found.contains(*id)).cloned());
        found.insert(id);
    }
    let known = |id: &String| packages.get(id).map(component);
    let on = |id: &String| depends.get(id).into_iter().flatten().filter_map(|id| packages.get(id).map(purl));
    let edges = found.iter().filter_map(|id| {
        let on: BTreeSet<String> = on(id).collect();
        packages.get(id).map(|package| json!({ "ref": purl(package), "dependsOn": on }))
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": known(&root) },
        "components": found.iter().filter(|id| **id != root).filter_map(known).collect::<Vec<_>>(),
        "dependencies": edges.collect::<Vec<_>>(),
    }))
}

/// Whether a dependency is part of the binary or of its build.
fn ships(dependency: &Value) -> bool {
    dependency["dep_kinds"].as_array().is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
}

fn target(dependency: &Value) -> String {
    text(&dependency["pkg"])
}

fn component(package: &Value) -> Value {
    let kind = if package["name"] == ROOT { "application" } else { "library" };
    let mut component = json!({
        "type": kind, "bom-ref": purl(package), "name": package["name"], "version": package["version"],
        "purl": purl(package),
    });
    if let Some(license) = package["license"].as_str() {
        // Older packages separate licences with a slash, which is no expression.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    component
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_the_binary_needs_and_no_packages_of_tests() {
        let document: Value = serde_json::from_str(&document(&Workspace::find().unwrap()).unwrap()).unwrap();
        let components = document["components"].as_array().unwrap();
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        assert_eq!(document["metadata"]["component"]["name"], ROOT);
        assert!(has("everhook-core") && has("tokio") && has("rusqlite"));
        assert!(!has("insta") && !has("proptest") && !has("everhook-testkit"), "packages of tests");
        let refs: BTreeSet<&str> = components.iter().filter_map(|component| component["bom-ref"].as_str()).collect();
        assert_eq!(refs.len(), components.len(), "each package once");
        let dependencies = document["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), components.len() + 1);
    }
}
