//! Rules about names: a public type has one name in the product, and the two stores have the same modules.

use std::collections::BTreeMap;

use super::{Finding, Tree};

/// Customers read these crates alone, so that their types may have the plain word that a crate of the server has as
/// well.
const CUSTOMER_CRATES: [&str; 2] = ["everhook-worker", "everhook-outbox"];

/// Crates that test the product; no part of it.
const TEST_CRATES: [&str; 3] = ["everhook-sim", "everhook-testkit", "everhook-tests"];

const SQLITE: &str = "everhook-sqlite";
const POSTGRES: &str = "everhook-postgres";

/// Modules that one database needs and the other does not: files and threads, connections and plans, and the reader of
/// another product's database. Store operations are never plumbing.
const PLUMBING: [(&str, &[&str]); 2] = [
    (SQLITE, &["backup", "checkpoint", "clock", "identity", "open", "readers", "writer"]),
    (
        POSTGRES,
        &[
            "columns",
            "hosts",
            "lease_sizing",
            "optimistic_append",
            "partition",
            "preplan",
            "renew",
            "scan_cursor",
            "store",
            "svix",
            "tenant",
            "tls",
            "tx",
            "url",
            "value",
            "wakeup",
        ],
    ),
];

/// No public type of the server has the name of another public type in its crates.
pub(super) fn unique_public_types(tree: &Tree) -> Vec<Finding> {
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    let is_free = |name: &str| CUSTOMER_CRATES.contains(&name) || TEST_CRATES.contains(&name);
    for source in tree.product_sources().filter(|source| !is_free(source.crate_name)) {
        for (number, line) in source.code_lines() {
            let Some(name) = public_type(line) else { continue };
            if let Some(path) = first.insert(name.to_owned(), source.path) {
                let remedy = format!("{path} has a public type {name}, too: give one of them a name of its own");
                findings.push(Finding::new(source.path, number, remedy));
            }
        }
    }
    findings
}

/// The name of the type that a line declares for other crates.
fn public_type(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split_whitespace().skip_while(|word| ["unsafe", "auto"].contains(word));
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&words.next()?);
    let name = words.next()?.split(|character: char| !character.is_alphanumeric() && character != '_').next()?;
    (is_type && !name.is_empty()).then_some(name)
}

/// A module of one store has a twin of the same name in the other, but for plumbing.
pub(super) fn twin_modules(tree: &Tree) -> Vec<Finding> {
    let mut findings = twins(tree);
    findings.extend(stale_plumbing(tree, &PLUMBING));
    findings
}

/// Each module of plumbing exists, and in one store only.
pub(super) fn stale_plumbing(tree: &Tree, plumbing: &[(&str, &[&str])]) -> Vec<Finding> {
    let (sqlite, postgres) = (modules(tree, SQLITE), modules(tree, POSTGRES));
    let mut findings = Vec::new();
    for (store, listed) in plumbing {
        let (own, twins) = if *store == SQLITE { (&sqlite, &postgres) } else { (&postgres, &sqlite) };
        for module in listed.iter().filter(|module| !own.contains_key(**module) || twins.contains_key(**module)) {
            let remedy = format!("{module} is no plumbing of {store} any more: remove it from PLUMBING");
            findings.push(Finding::new("xtask/src/tidy/names.rs", 1, remedy));
        }
    }
    findings
}

pub(super) fn twins(tree: &Tree) -> Vec<Finding> {
    let (sqlite, postgres) = (modules(tree, SQLITE), modules(tree, POSTGRES));
    let mut findings = Vec::new();
    for (store, own, other, twins) in [(SQLITE, &sqlite, POSTGRES, &postgres), (POSTGRES, &postgres, SQLITE, &sqlite)] {
        let lonely = own.iter().filter(|(module, _)| !twins.contains_key(*module) && !is_plumbing(store, module));
        findings.extend(lonely.map(|(module, path)| {
            let remedy = format!("{other} has no module {module}: name its twin so, or merge the two");
            Finding::new(path, 1, remedy)
        }));
    }
    findings
}

fn is_plumbing(store: &str, module: &str) -> bool {
    let root = module.split("::").next().unwrap_or_default();
    PLUMBING.iter().any(|(at, modules)| *at == store && modules.contains(&root))
}

/// The modules of a store, each with its file.
fn modules<'a>(tree: &'a Tree, store: &str) -> BTreeMap<String, &'a str> {
    let sources = tree.product_sources().filter(|source| source.crate_name == store);
    let named = sources.filter_map(|source| {
        let module = source.path.split_once("/src/")?.1.strip_suffix(".rs")?.replace('/', "::");
        (module != "lib").then_some((module, source.path))
    });
    named.collect()
}
